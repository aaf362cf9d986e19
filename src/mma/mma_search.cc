// Times and ranked schedules of products by mma.sync. No chip that they are for was measured: rates
// are the data sheets', shares of them were fitted to the same code on an H200
// (docs/lab/other-chips.md).
#include <algorithm>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/mma/mma.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr double kHbmShare = 0.85;
constexpr double kTensorShare = 0.93, kFullWarps = 6;  // of an SM
constexpr double kSharedBytesPerClock = 128;
constexpr double kLoadUs = 0.8;     // of a stage from memory
constexpr double kStepClocks = 60;  // a barrier, and the first fragments
constexpr int kStepBytes = 128;     // of K, that a slice has of a step

// Blocks that an SM holds at once.
int64_t ResidentOf(const MmaProduct& p, const MmaSchedule& s, const DeviceModel& model) {
  const int64_t shared =
      model.shared_bytes_per_sm / (SharedMemoryBytes(p, s) + model.reserved_shared_bytes);
  const int64_t registers = model.registers_per_sm / (RegistersOf(p, s) * s.Threads());
  return std::max<int64_t>(
      1, std::min({shared, registers, int64_t{model.threads_per_sm / s.Threads()}}));
}

}  // namespace

absl::StatusOr<Prediction> PredictSchedule(const MmaProduct& p, const MmaSchedule& s, int64_t,
                                           const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSchedule(p, s, model));
  const int64_t rows = p.rows, tiles = s.grid;
  const MatrixProduct& product = p.product;
  const int64_t size = product.rows.bytes(), width = product.Width();
  const double k_bytes = static_cast<double>(product.k * size);
  const double lines = static_cast<double>(s.block_m + width * s.block_n);
  // The SM with the most tiles: `turns` of `together` at once.
  const int64_t most = CeilDiv(tiles, model.sm_count);
  const int64_t together = std::min(most, ResidentOf(p, s, model));
  const auto of_sm = static_cast<double>(most),
             turns = static_cast<double>(CeilDiv(most, together));
  const double steps = static_cast<double>(CeilDiv(product.k * size, kStepBytes * s.slices));

  Prediction time;
  time.hbm_bytes = static_cast<double>(product.WeightBytes() + rows * product.k * size +
                                       rows * product.n * product.ResultBytes());
  if (product.epilogue.has_residual()) {
    time.hbm_bytes +=
        static_cast<double>(rows * product.n * SizeOf(product.epilogue.program.MatrixType()));
  }
  time.hbm_us = time.hbm_bytes / (model.hbm_bytes_per_us * kHbmShare);
  time.l2_bytes = static_cast<double>(tiles) * lines * k_bytes;
  time.l2_us = time.l2_bytes / model.l2_shared_bytes_per_us;
  time.intake_us = of_sm * lines * k_bytes / model.sm_intake_bytes_per_us;
  const double rate = size == 1 ? model.tensor_fp8_flop_per_us : model.tensor_flop_per_us;
  const double warps = static_cast<double>(together * s.Warps());
  time.tensor_us = of_sm * 2.0 * s.block_m * static_cast<double>(width * s.block_n * product.k) /
                   (rate / model.sm_count * kTensorShare * std::min(1.0, warps / kFullWarps));
  // A step's stage is written once and read by each warp that multiplies a part of it.
  const double read = s.Warps() * static_cast<double>(s.warp_m + width * s.warp_n) * kStepBytes;
  time.shared_us = of_sm * steps * (read + lines * s.slices * kStepBytes) /
                   (kSharedBytesPerClock * model.clock_mhz);
  // A stage is asked for when the one before the last of the ring is multiplied, and awaited a
  // quarter of a step before it is multiplied itself.
  const double ahead = s.stages - 1.25;
  const double wait = turns * steps * std::max(kLoadUs / ahead, kStepClocks / model.clock_mhz);
  time.fixed_us = model.launch_us + kLoadUs + model.drain_us;
  time.total_us = time.fixed_us + FourNorm({time.hbm_us, time.l2_us, time.intake_us, time.tensor_us,
                                            time.shared_us, wait});
  const double longest =
      std::max({time.hbm_us, time.l2_us, time.intake_us, time.tensor_us, time.shared_us, wait});
  time.bound = longest == wait             ? "latency"
               : longest == time.hbm_us    ? "hbm"
               : longest == time.l2_us     ? "l2"
               : longest == time.intake_us ? "intake"
               : longest == time.tensor_us ? "tensor"
                                           : "shared";
  return time;
}

std::vector<RankedMma> SearchMma(const MmaProduct& p, const DeviceModel& model, bool one_order) {
  std::vector<RankedMma> ranked;
  MmaSchedule s;
  for (s.block_m = 16; s.block_m <= 256; s.block_m *= 2) {
    if (s.block_m >= 32 && s.block_m / 2 >= p.rows) break;
    for (s.block_n = 16; s.block_n <= 256; s.block_n *= 2) {
      for (s.warp_m = 16; s.warp_m <= 64; s.warp_m *= 2) {
        for (s.warp_n = 16; s.warp_n <= 64; s.warp_n *= 2) {
          for (s.slices = 1; s.slices <= (one_order ? 1 : 8); s.slices *= 2) {
            s.grid = static_cast<int>(BlocksOf(p, s));
            for (s.stages = 2; s.stages <= 6; ++s.stages) {
              absl::StatusOr<Prediction> time = PredictSchedule(p, s, p.rows, model);
              if (time.ok()) ranked.push_back({s, *std::move(time)});
            }
          }
        }
      }
    }
  }
  SortByTime(&ranked);
  return ranked;
}

}  // namespace sinter
