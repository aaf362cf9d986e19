#include <algorithm>
#include <numeric>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/collective/collective.h"

namespace sinter {
namespace {

// Measured on two H100s with NVLink 4, in graphs without programmatic edges, in one shot and in
// two: 16 KiB takes 4.0 and 5.3 us, 1 MiB takes 7.3 and 8.0, 16 MiB takes 55 and 52. Eight blocks
// fill the link.
constexpr double kTripUs = 1.3;
constexpr double kBlockLinkBytesPerUs = 45e3;
constexpr double kNormUs = 0.4;  // a sum over the block
constexpr double kCallUs = 2.1;  // epoch, header, first loads, the last block's count
// Measured on two H200s for 16 KiB to 2 MiB: how much less a pushed sum takes than one of x in
// memory, besides what the product hides.
constexpr double kPushedGainUs = 0.5;
constexpr int64_t kRowsOfWideBlocks = 64;  // above them more threads of a norm were slower

// What blocks take in turns: rows with their norms, or parts of rows.
int64_t UnitsOfRow(const CollectiveProblem& p, const CollectiveSchedule& s) {
  return p.norm ? 1 : CollectiveParts(p, s);
}

}  // namespace

absl::StatusOr<Prediction> PredictSchedule(const CollectiveProblem& p, const CollectiveSchedule& s,
                                           int64_t m, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckCollective(p, s));
  const int64_t rows = p.Rows(m);
  // `in`: the bytes of a message to another rank; `out`: those that this rank computes, or that
  // each rank sends it.
  const double elements = static_cast<double>(rows) * static_cast<double>(p.columns);
  const double in = elements * static_cast<double>(SizeOf(p.element));
  const double out = elements * static_cast<double>(SizeOf(p.result));
  const double peers = p.ranks - 1, ranks = p.ranks;
  const double sent = s.two_shot ? (in + out) * peers / ranks : in * peers;
  // Slots are written by what arrives, read once, and emptied.
  const double slots = 3 * (s.two_shot ? (in + out) * peers / ranks : in * peers);
  const auto units = static_cast<double>(rows * UnitsOfRow(p, s));
  const double blocks = std::min<double>(s.grid, units);
  Prediction time;
  time.fixed_us = model.launch_us - model.programmatic_edge_us + kCallUs +
                  (s.two_shot ? 2 : 1) * kTripUs + (p.norm ? kNormUs : 0);
  if (s.pushed > 0) time.fixed_us -= kPushedGainUs;
  time.hbm_bytes = in * p.PartsOfX() +
                   out * ((p.residual ? 1 : 0) + (p.keeps ? p.PartsOfOut() : 0) + (p.norm ? 1 : 0));
  const double operands = time.hbm_bytes;
  // With long messages, slots too come from memory.
  const double kept = model.l2_kept_share * static_cast<double>(model.l2_bytes);
  time.hbm_bytes += slots * std::max(0.0, 1 - kept / std::max(1.0, in));
  time.hbm_us = time.hbm_bytes / model.hbm_bytes_per_us;
  time.l2_bytes = operands + slots;
  time.l2_us = time.l2_bytes / model.l2_bytes_per_us;
  const double rate = std::min(model.link_bytes_per_us, blocks * kBlockLinkBytesPerUs);
  // What the product does not hide.
  const double own =
      sent * (1 - static_cast<double>(s.pushed_columns) / static_cast<double>(p.columns));
  const double link_us = s.pushed > 0 ? sent / model.link_bytes_per_us / s.pushed : own / rate;
  time.dsm_bytes = sent;
  time.dsm_us = link_us;
  const double most = std::max({link_us, time.hbm_us, time.l2_us});
  time.bound = most == link_us ? "link" : most == time.hbm_us ? "hbm" : "l2";
  time.total_us = time.fixed_us + most;
  return time;
}

std::vector<RankedCollective> SearchCollective(const CollectiveProblem& p, int64_t m,
                                               const DeviceModel& model, PushedX pushed) {
  const int64_t rows = p.Rows(m);
  std::vector<RankedCollective> ranked;
  for (const bool two_shot : {false, true}) {
    // If schedules are predicted to be equal, the first one is taken.
    const bool wide = p.norm && rows <= kRowsOfWideBlocks;
    for (const int threads : {wide ? 512 : 256, 128, wide ? 256 : 512}) {
      CollectiveSchedule s{two_shot, threads, 1,
                           static_cast<int>(std::min<int64_t>(pushed.turns, 255)),
                           static_cast<int>(pushed.columns)};
      if (!CheckCollective(p, s).ok()) continue;
      int64_t most = int64_t{model.sm_count} * CollectiveResidents(p, threads);
      // Unit u is rank u % ranks's. Without a common divisor of grid and ranks, the units that a
      // block takes in turns have every rank as their owner.
      while (std::gcd(most, int64_t{p.ranks}) > 1) --most;
      const int64_t units = std::max<int64_t>(rows, 1) * UnitsOfRow(p, s);
      s.grid = static_cast<int>(std::min(units, most));
      absl::StatusOr<Prediction> time = PredictSchedule(p, s, m, model);
      if (time.ok()) ranked.push_back({s, *std::move(time)});
    }
  }
  SortByTime(&ranked);
  return ranked;
}

}  // namespace sinter
