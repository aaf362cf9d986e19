#include "src/grouped/grouped_search.h"

#include <algorithm>
#include <cmath>

#include "src/base/numbers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Shares of the chip's rates, and times, fitted to an H100 (docs/lab/grouped-products.md).
constexpr double kTensorShare = 0.62;  // no multicast, rows copied by threads
constexpr double kHbmShare = 0.95;     // of streams in pieces of a stage
constexpr double kOverlapLoss = 0.03;  // of what the longest level hides
constexpr double kRoutingUs = 0.8;     // to count the ids and find a tile's
constexpr double kRoutingIdsPerUs = 8192;
constexpr double kDotFlopPerUs = 4e6;   // of threads that compute one result each
constexpr double kBusyBlockGain = 1.6;  // of one SM's HBM rate over its share

double Elements(int64_t a, int64_t b, int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// Blocks that an SM holds.
int Residents(const GroupedSchedule& s) { return s.block_m == 0 ? 8 : s.BlocksPerSm(); }

int64_t TilesN(const GroupedProduct& p, const GroupedSchedule& s) {
  if (s.block_m == 0) return CeilDiv(p.n, 128);
  return CeilDiv(p.n, p.gate == GroupedGate::kNone ? s.block_n : s.block_n / 2);
}

}  // namespace

double ExpectedExperts(int64_t experts, int64_t slots, int64_t rows) {
  const double share = std::min(1.0, static_cast<double>(slots) / static_cast<double>(experts));
  return static_cast<double>(experts) *
         (1 - std::pow(1 - share, static_cast<double>(std::max<int64_t>(rows, 1))));
}

int64_t MostTiles(int64_t slots, int64_t groups, int64_t block_m) {
  const int64_t first = std::min(slots, groups);
  return first + (slots - first) / block_m;
}

absl::StatusOr<Prediction> PredictGrouped(const GroupedProduct& p, const GroupedSchedule& s,
                                          int64_t bucket, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckGroupedSchedule(p, s, model));
  const int64_t rows = p.Rows(bucket), slots = rows * p.slots;
  const double touched = ExpectedExperts(p.experts, p.slots, rows);
  const double of_expert = std::max(1.0, static_cast<double>(slots) / touched);
  const int64_t element = SizeOf(p.weights);
  const double matrix_bytes = Elements(p.WeightColumns(), p.k, element);
  const double row_bytes = Elements(p.slot_rows ? slots : rows, p.k, SizeOf(p.rows));
  const double out_bytes = Elements(slots, p.n, SizeOf(p.result));
  Prediction time;
  time.fixed_us = model.launch_us - model.programmatic_edge_us + model.fill_us + model.drain_us +
                  kRoutingUs + static_cast<double>(slots) / kRoutingIdsPerUs;
  time.hbm_bytes = touched * matrix_bytes + row_bytes + out_bytes;
  if (s.block_m == 0) {
    time.hbm_us = time.hbm_bytes / model.hbm_bytes_per_us;
    time.tensor_us = 2 * Elements(slots, p.WeightColumns(), p.k) / kDotFlopPerUs;
    time.total_us = time.fixed_us + std::max(time.hbm_us, time.tensor_us);
    time.bound = time.tensor_us > time.hbm_us ? "tensor" : "hbm";
    return time;
  }
  const double full = of_expert / s.block_m;
  const double tiles = touched * (full <= 0.5 ? 1 : full + 0.5);
  const double units = tiles * static_cast<double>(TilesN(p, s));
  const double blocks = std::min(static_cast<double>(s.grid), units);
  const double turns = std::ceil(units / s.grid - 1e-9);
  const double even = units / std::max(1.0, turns) / s.grid;  // share of blocks with work
  const double sms = std::min<double>(model.sm_count, blocks);
  const double hbm_share = std::min(1.0, kBusyBlockGain * sms / model.sm_count);
  time.hbm_us = time.hbm_bytes / (model.hbm_bytes_per_us * kHbmShare * hbm_share);
  time.l2_bytes = units * (std::min(of_expert, static_cast<double>(s.block_m)) + s.block_n) *
                  static_cast<double>(p.k * element);
  time.l2_us = time.l2_bytes / (model.l2_bytes_per_us * std::min(1.0, 1.3 * sms / model.sm_count));
  const double flop = 2 * units * s.block_m * s.block_n * static_cast<double>(RoundUp(p.k, 64));
  time.tensor_us = flop / (model.tensor_flop_per_us * kTensorShare * std::max(even, 0.05));
  const double most = std::max({time.hbm_us, time.l2_us, time.tensor_us});
  time.bound = most == time.hbm_us ? "hbm" : most == time.l2_us ? "l2" : "tensor";
  const double others = time.hbm_us + time.l2_us + time.tensor_us - most;
  time.total_us = time.fixed_us + most + kOverlapLoss * others;
  return time;
}

std::vector<RankedGrouped> SearchGrouped(const GroupedProduct& p, int64_t bucket,
                                         const DeviceModel& model) {
  std::vector<RankedGrouped> ranked;
  const int64_t slots = p.Rows(bucket) * p.slots;
  const auto add = [&](GroupedSchedule s) {
    const int64_t tiles = s.block_m == 0 ? slots : MostTiles(slots, p.experts + 1, s.block_m);
    const int64_t resident = int64_t{model.sm_count} * Residents(s);
    s.grid = static_cast<int>(std::clamp<int64_t>(tiles * TilesN(p, s), 1, resident));
    absl::StatusOr<Prediction> time = PredictGrouped(p, s, bucket, model);
    if (time.ok()) ranked.push_back({s, *std::move(time)});
  };
  for (const int block_m : {64, 128}) {
    for (const int block_n : {64, 128, 256}) {
      for (const int stages : {4, 5, 6, 8}) add({block_m, block_n, stages, 1});
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const RankedGrouped& a, const RankedGrouped& b) {
                     return a.prediction.total_us < b.prediction.total_us;
                   });
  add({0, 0, 0, 1});  // for what tensor cores do not take, and where a compiler refuses the others
  return ranked;
}

}  // namespace sinter
