#include <algorithm>
#include <cmath>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/four_bit/four_bit.h"

namespace sinter {
namespace {

// Shares of the chip's rates, and times, fitted to an H200 (docs/lab/four-bit-weights.md).
constexpr double kHbmShare = 0.72;
constexpr double kIntakeBytesPerUs = 40e3;  // weights and rows, of an SM
constexpr double kIssueShare = 0.55;        // of the slots of warps that wait for stages
constexpr double kSharedBytesPerClock = 128, kSharedShare = 0.62;
constexpr double kFixedUs = 3.8;    // after a launch: the first stage, and sums of slices
constexpr double kClusterUs = 2.2;  // barriers of a cluster, and sums of its ranks

// Instructions of a warp for 16 columns and 128 of K: its loads, eight words of codes for each of
// two rows of a lane, and products with each 8 rows. By form, of eight codes.
double StepInstructions(const FourBitProduct& p, int block_m) {
  constexpr double kCodes[] = {9, 13, 15, 40, 40}, kFloat16Codes = 4;
  constexpr double kLoads = 40, kRowTile = 12;
  const int form = FormOf(p);
  const bool f16 = p.product.weights.element == DType::kF16 && form < 3;
  return kLoads + 8 * (kCodes[form] + (f16 ? kFloat16Codes : 0)) + kRowTile * block_m / 8;
}

}  // namespace

absl::StatusOr<Prediction> PredictSchedule(const FourBitProduct& p, const FourBitSchedule& s,
                                           int64_t bucket, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSchedule(p, s, model));
  const int64_t rows = p.Rows(bucket);
  if (rows > s.block_m) {
    return FailedPrecondition("block_m is ", s.block_m, ", must be at least the rows, ", rows);
  }
  Prediction time;
  const int64_t blocks = BlocksOf(p, s);
  const int64_t at_once =
      std::max(1, s.split == 1 ? model.sm_count : model.ResidentBlocks(s.split));
  const double turns = static_cast<double>(CeilDiv(blocks, at_once));
  const int64_t of_step = int64_t{128} * s.slices;  // of K
  const double steps = static_cast<double>(CeilDiv(CeilDiv(p.product.k, of_step), s.split)) * turns;
  const double warp_steps = s.Warps(p) * steps;
  const double of_k = static_cast<double>(p.WeightBytes()) / static_cast<double>(p.product.n) /
                      static_cast<double>(p.product.k);  // bytes of a column
  const double of_block =
      steps * static_cast<double>(of_step) * (of_k * 16 * s.tiles + 2 * static_cast<double>(rows));
  const int64_t of_rows = rows * p.product.k * SizeOf(p.product.rows.element);
  const int64_t out = rows * p.product.n * SizeOf(p.product.result);
  time.hbm_bytes = static_cast<double>(p.WeightBytes() + of_rows + out);
  time.hbm_us = time.hbm_bytes / (model.hbm_bytes_per_us * kHbmShare);
  time.l2_bytes = static_cast<double>(blocks / s.split * of_rows);
  time.intake_us = of_block / kIntakeBytesPerUs;
  time.shared_us = warp_steps * (1024 + 256.0 * s.block_m) /
                   (kSharedBytesPerClock * kSharedShare * model.clock_mhz);
  // An SM issues instructions of four warps in a clock, of one each: few warps leave slots empty.
  constexpr double kFullWarps = 16;
  const double issue_us =
      warp_steps * StepInstructions(p, s.block_m) /
      (4 * kIssueShare * std::min(1.0, s.Warps(p) / kFullWarps) * model.clock_mhz);
  time.tensor_us = issue_us;
  time.fixed_us = model.launch_us + kFixedUs + (s.split > 1 ? kClusterUs : 0);
  time.total_us = time.fixed_us + FourNorm({time.hbm_us, time.intake_us, time.shared_us, issue_us});
  const double most = std::max({time.hbm_us, time.intake_us, time.shared_us, issue_us});
  time.bound = most == time.hbm_us      ? "hbm"
               : most == time.intake_us ? "intake"
               : most == time.shared_us ? "shared"
                                        : "tensor";
  return time;
}

std::vector<RankedFourBit> SearchFourBit(const FourBitProduct& p, int64_t bucket,
                                         const DeviceModel& model) {
  std::vector<RankedFourBit> ranked;
  if (p.Rows(bucket) > kMostFourBitRows) return ranked;
  FourBitSchedule s;
  while (s.block_m < p.Rows(bucket)) s.block_m *= 2;
  for (s.split = 1; s.split <= 2; ++s.split) {
    for (s.slices = 2; s.slices <= 8; s.slices += 2) {
      for (s.tiles = 1; s.tiles <= 16; ++s.tiles) {
        s.grid = static_cast<int>(BlocksOf(p, s));
        s.stages = 8;
        while (s.stages > 2 && !CheckSchedule(p, s, model).ok()) --s.stages;
        absl::StatusOr<Prediction> time = PredictSchedule(p, s, bucket, model);
        if (time.ok()) ranked.push_back({s, *std::move(time)});
      }
    }
  }
  SortByTime(&ranked);
  return ranked;
}

}  // namespace sinter
