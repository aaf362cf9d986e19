#include <algorithm>
#include <cmath>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/grouped/grouped.h"

namespace sinter {
namespace {

// Shares of the chip's rates, and times, fitted to an H100 (docs/lab/grouped-products.md).
constexpr double kTensorShare = 0.62;  // no multicast, rows copied by threads
// A step of a block whose threads add the sums of e4m3: they wait for the tensor cores once or
// twice. Fitted to 64 columns on an H200.
constexpr double kPromotedStepUs = 0.12, kPromotedColumnUs = 0.0023;
constexpr double kHbmShare = 0.95;         // of streams in pieces of a stage
constexpr double kOverlapLoss = 0.03;      // of what the longest level hides
constexpr double kRoutingUs = 0.8;         // to count the ids and find a tile's
constexpr double kRoutingIdsPerUs = 8192;  // that are counted; ends are read at once
constexpr double kDotFlopPerUs = 4e6;      // of threads that compute one result each
// Warps that compute some results together: memory's share, and the rates of 16 bits and of e4m3,
// which takes 1.8 times the instructions.
constexpr double kWarpDotHbmShare = 0.9, kWarpDotFlopPerUs = 12e6, kWarpDotCodeFlopPerUs = 7e6;
constexpr double kBusyBlockGain = 1.6;  // of one SM's HBM rate over its share
// Weights that an SM takes as tiles, however few SMs are busy. Fitted to one and four rows of an
// H200.
constexpr double kTileBytesPerUs = 34e3;
constexpr double kStageRowBytes = 128, kMemoryLatencyUs = 1.3;  // of a copy while memory is busy
constexpr double kSearchIdsPerUs = 5000;  // that copying threads look through for a tile's slots
// The share of an expert's matrix that each of its tiles after the first reads from memory again,
// because blocks do not keep step. Fitted to an H200, like the constants below.
constexpr double kReadAgainShare = 0.8;
// Constants of swapped tiles.
constexpr double kSwappedHbmShare = 0.91;      // of memory's rate
constexpr double kSwappedShare = 0.82;         // of the tensor cores' rate
constexpr double kPromotedSwappedShare = 0.5;  // of that of e4m3. Not measured
constexpr int64_t kFindSteps = 16;             // of K, in which slots are found once, at least
constexpr double kSwappedLatencyUs = 1.6;      // of a copy, until its stage is there
constexpr double kSharedBytesPerClock = 128;   // of an SM's shared memory
constexpr double kStoredBytesPerUs = 45e3;     // of an SM whose warpgroups store results
constexpr double kLeastSlotsOfExpert = 8;      // narrower tiles multiply mostly nothing
constexpr double kSlotsLost = 8;               // of a tile, in the mean

double Elements(int64_t a, int64_t b, int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// Constants of weights of four bits (docs/lab/four-bit-weights.md), fitted to an H200.
constexpr double kUnpackedBytesPerUs = 28e3;  // of codes and scales, of an SM
constexpr double kFullUnpackWarps = 12, kFewWarpsLoss = 0.15;
constexpr int kFullUnpackThreads = 640;  // more leave a thread fewer registers
constexpr double kManyThreadsLoss = 0.05;
constexpr double kUnitUs = 0.9;             // of a unit, while its sums end
constexpr double kRowTileLoss = 0.12;       // of each 8 slots of a tile after the first
constexpr double kWideTileLoss = 0.07;      // of tiles of 16 or 32 slots with fewer
constexpr double kFirstStageUs = 4;         // until slots, rows and weights are there
constexpr double kHiddenInstructions = 15;  // of eight codes: more take more time

int64_t TilesN(const GroupedProduct& p, const GroupedSchedule& s) {
  if (s.IsWarpDots()) return CeilDiv(p.n, WarpColumns(p) * (s.Threads() / 32));
  if (s.block_m == 0) return CeilDiv(p.n, s.Threads());
  return CeilDiv(p.n, p.IsPair() ? s.block_n / 2 : s.block_n);
}

// Bytes of scales of 128 of K; other scales are few.
double ScaleBytes(const GroupedProduct& p, double touched, int64_t rows) {
  const int64_t groups = p.k / kScaleBlock;
  double bytes = 0;
  if (p.row_scales == GroupedScales::kGroups) {
    bytes += Elements(p.slot_rows ? rows * p.slots : rows, groups, SizeOf(DType::kF32));
  }
  if (p.weight_scales == GroupedScales::kGroups) {
    bytes +=
        touched * Elements(CeilDiv(p.WeightColumns(), kScaleBlock), groups, SizeOf(DType::kF32));
  }
  return bytes;
}

// Bytes of a slot's row of the matrix that the program reads.
double MatrixBytes(const GroupedProduct& p) {
  return p.Reads(LeafKind::kMatrix) ? Elements(p.n, SizeOf(p.program.MatrixType()), 1) : 0;
}

// How the slots of a product fall to experts, uniformly.
struct Spread {
  double touched = 0, of_expert = 0;  // experts, and slots of each
  double slots() const { return touched * of_expert; }
  // Tiles of up to `most` slots. The numbers of experts' slots are about normal, and an expert has
  // a tile for each j with more than j * most.
  double Tiles(double most) const {
    double tiles = 1;
    for (double j = 1; j * most < of_expert + 4 * std::sqrt(of_expert); ++j) {
      tiles += std::erfc((j * most + 0.5 - of_expert) / std::sqrt(2 * of_expert)) / 2;
    }
    return touched * tiles;
  }
};

// For `units` in turns of `at_once`: how many times as long they take as if they were divided
// evenly. In the last turn, where some have none, the others are up to `gain` times as fast.
double Unevenness(double units, double at_once, double gain) {
  const double full = std::floor(units / at_once + 1e-9), rest = units - full * at_once;
  const double last = rest < 1e-6 ? 0 : std::max(rest / at_once, 1 / gain);
  return (full + last) * at_once / units;
}

// The bytes that tiles after an expert's first read again, of experts that do not all stay in L2.
double BytesReadAgain(const GroupedProduct& p, const Spread& spread, double tiles,
                      const DeviceModel& model) {
  const double matrix = Elements(p.WeightColumns(), p.k, SizeOf(p.weights));
  if (matrix * spread.touched < model.l2_kept_share * static_cast<double>(model.l2_bytes)) return 0;
  return kReadAgainShare * std::max(0.0, tiles - spread.touched) * matrix;
}

// Of K in a step: 128 bytes.
int64_t StepK(const GroupedProduct& p) { return 128 / SizeOf(p.weights); }

// Units that a block takes one after the other, so that slots are found once for them (UnitWalk).
double PieceUnits(const GroupedProduct& p) {
  return static_cast<double>(std::max<int64_t>(1, kFindSteps / CeilDiv(p.k, StepK(p))));
}

// Time of the SM that has most tiles to read from memory, each 64 columns wide: no cut of columns
// is more even. Only the first of an expert's tiles reads. It does not apply to e4m3, whose tiles
// wait for their sums.
double NarrowTilesUs(const GroupedProduct& p, double experts, const DeviceModel& model) {
  constexpr int kNarrow = 64;
  if (p.HasScales()) return 0;
  const double units = experts * static_cast<double>(TilesN(p, {kNarrow, kNarrow}));
  const double bytes = kNarrow * kStageRowBytes * static_cast<double>(CeilDiv(p.k, StepK(p)));
  return std::max(1.0, std::ceil(units / model.sm_count - 1e-9)) * bytes / kTileBytesPerUs;
}

// Times of memory, L2 and tensor cores in tiles of which a block has one at a time.
void PredictTiles(const GroupedProduct& p, const GroupedSchedule& s, const Spread& spread,
                  const DeviceModel& model, Prediction* time) {
  const double tiles = spread.Tiles(s.block_m), units = tiles * static_cast<double>(TilesN(p, s));
  time->hbm_bytes += BytesReadAgain(p, spread, tiles, model);
  const double blocks = std::min(static_cast<double>(s.grid), units);
  const double turns = std::max(1.0, std::ceil(units / s.grid - 1e-9));
  const double even = units / turns / s.grid;  // share of blocks with work
  const double sms = std::min<double>(model.sm_count, blocks);
  const double hbm_share = std::min(1.0, kBusyBlockGain * sms / model.sm_count);
  // Few blocks have few bytes of weights on the way.
  const double on_the_way = blocks * (s.stages - 1) * s.block_n * kStageRowBytes;
  const double latency_us = time->hbm_bytes / on_the_way * kMemoryLatencyUs;
  const double rate = model.hbm_bytes_per_us * kHbmShare * hbm_share;
  // The last term ranks longer rings first where the others hide their latency.
  time->hbm_us =
      std::max({time->hbm_bytes / rate, latency_us, NarrowTilesUs(p, spread.touched, model)}) +
      kOverlapLoss * latency_us * (1 - hbm_share);
  time->l2_bytes = units *
                   (std::min(spread.of_expert, static_cast<double>(s.block_m)) + s.block_n) *
                   static_cast<double>(p.k * SizeOf(p.weights));
  time->l2_us =
      time->l2_bytes / (model.l2_bytes_per_us * std::min(1.0, 1.3 * sms / model.sm_count));
  const double flop =
      2 * units * s.block_m * s.block_n * static_cast<double>(RoundUp(p.k, StepK(p)));
  const double tensor_rate =
      p.HasScales() ? model.tensor_fp8_flop_per_us : model.tensor_flop_per_us;
  time->tensor_us = flop / (tensor_rate * kTensorShare * std::max(even, 0.05));
  if (p.HasScales()) {
    const double step = kPromotedStepUs + kPromotedColumnUs * s.block_n;
    time->tensor_us =
        std::max(time->tensor_us, turns * static_cast<double>(CeilDiv(p.k, StepK(p))) * step);
  }
  if (p.by_ends) return;
  // Copies wait for a tile's slots, which lie among so many ids.
  const double finds = std::max(1.0, turns / PieceUnits(p));
  time->fixed_us +=
      finds * std::min(1.0, s.block_m / spread.of_expert) * spread.slots() / kSearchIdsPerUs;
}

// The same in swapped tiles, of which each block of a cluster has one at a time.
void PredictSwapped(const GroupedProduct& p, const GroupedSchedule& s, const Spread& spread,
                    const DeviceModel& model, Prediction* time) {
  const auto tiles_n = static_cast<double>(TilesN(p, s));
  const int blocks = s.ClusterBlocks();
  const double tiles = spread.Tiles(blocks * s.block_m), units = tiles * tiles_n;
  const double clusters = static_cast<double>(s.grid) / blocks;
  const double turns = Unevenness(units, clusters, 1) * units / clusters;
  const double uneven = Unevenness(units, clusters, kBusyBlockGain);
  // A product of 64 columns and N slots takes N / 2 clocks, and reads 2048 + 32 N bytes of shared
  // memory. A step is 16 of them, and copies write its stage.
  const double slots = spread.slots() / (blocks * tiles) + kSlotsLost;
  const double shared_bytes = 16 * (2048 + 32 * slots) + kStageRowBytes * (s.block_n + slots);
  const double shared_us = shared_bytes / kSharedBytesPerClock / model.clock_mhz;
  const double rate = p.HasScales() ? model.tensor_fp8_flop_per_us * kPromotedSwappedShare
                                    : model.tensor_flop_per_us * kSwappedShare;
  const double flop = 2 * slots * s.block_n * static_cast<double>(StepK(p));
  const double step_us = std::max(shared_us, flop * model.sm_count / rate);
  const auto steps = static_cast<double>(CeilDiv(p.k, StepK(p)));
  const double stored = spread.slots() * (Elements(p.n, SizeOf(p.result), 1) + MatrixBytes(p));
  const double end_us = stored / (blocks * units) / kStoredBytesPerUs;
  time->tensor_us = turns * (steps * step_us + end_us);
  // A stage waits for its copy, for its own products and for the products of the next step. While a
  // tile is stored no stage gets free.
  const double ring_us = turns * (steps * (kSwappedLatencyUs + 2 * step_us) / s.stages + end_us);
  time->hbm_bytes += BytesReadAgain(p, spread, tiles, model);
  time->hbm_us =
      std::max(ring_us, time->hbm_bytes * uneven / (model.hbm_bytes_per_us * kSwappedHbmShare));
  time->l2_bytes =
      (units * s.block_n + spread.slots() * tiles_n) * static_cast<double>(p.k * SizeOf(p.weights));
  time->l2_us = time->l2_bytes * uneven / model.l2_bytes_per_us;
  if (blocks > 1) time->fixed_us += model.cluster_barrier_us;
}

// The same of weights of four bits: blocks are as fast as they unpack.
void PredictFourBit(const GroupedProduct& p, const GroupedSchedule& s, const Spread& spread,
                    const DeviceModel& model, Prediction* time) {
  const double tiles = spread.Tiles(s.block_m), units = tiles * static_cast<double>(TilesN(p, s));
  const double column = static_cast<double>(p.codes.ColumnBytes(p.k));
  const double padded =
      static_cast<double>(RoundUp(p.k, int64_t{256} * s.slices)) / static_cast<double>(p.k);
  const double warps = s.block_n / 16 * s.slices;
  const double few = std::max(0.0, 1 - warps / kFullUnpackWarps) * kFewWarpsLoss;
  const double slots = spread.slots() / tiles;  // of a tile
  const double more =
      std::max(0.0, std::ceil(slots / 8) - 1) * kRowTileLoss + (s.block_m > 8 ? kWideTileLoss : 0);
  const double many = s.Threads() > kFullUnpackThreads ? kManyThreadsLoss : 0;
  const double work = 0.4 + 0.6 * UnpackInstructions(p.codes, p.weights) / kHiddenInstructions;
  const double bytes = column * s.block_n * padded * (1 + few + many + more);
  const double unit = kUnitUs + bytes * std::max(1.0, work) / kUnpackedBytesPerUs;
  const double blocks = std::min<double>(s.grid, units);
  time->tensor_us = Unevenness(units, s.grid, 1) * units / s.grid * unit;
  time->hbm_bytes += kReadAgainShare * std::max(0.0, tiles - spread.touched) *
                     static_cast<double>(p.WeightColumns()) * column;
  time->hbm_us = time->hbm_bytes / (model.hbm_bytes_per_us * kHbmShare) *
                 std::max(1.0, model.sm_count / (kBusyBlockGain * blocks));
  time->l2_bytes = units * spread.of_expert * static_cast<double>(p.k * SizeOf(p.rows));
  time->l2_us = time->l2_bytes / model.l2_bytes_per_us;
  time->fixed_us += kFirstStageUs;
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

absl::StatusOr<Prediction> PredictSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                                           int64_t bucket, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSchedule(p, s, model));
  const int64_t rows = p.Rows(bucket), slots = rows * p.slots;
  const double touched = ExpectedExperts(p.experts, p.slots, rows);
  const double of_expert = std::max(1.0, static_cast<double>(slots) / touched);
  const double matrix_bytes = p.HasCodes()
                                  ? Elements(p.WeightColumns(), p.codes.ColumnBytes(p.k), 1)
                                  : Elements(p.WeightColumns(), p.k, SizeOf(p.weights));
  const double row_bytes = Elements(p.slot_rows ? slots : rows, p.k, SizeOf(p.rows));
  const double out_bytes =
      Elements(slots, p.n, SizeOf(p.result)) + static_cast<double>(slots) * MatrixBytes(p);
  Prediction time;
  time.fixed_us = model.launch_us - model.programmatic_edge_us + model.fill_us + model.drain_us +
                  kRoutingUs + (p.by_ends ? 0 : static_cast<double>(slots) / kRoutingIdsPerUs);
  time.hbm_bytes = touched * matrix_bytes + row_bytes + out_bytes + ScaleBytes(p, touched, rows);
  if (s.block_m == 0) {
    const bool warps = s.IsWarpDots();
    if (warps) {  // each slot reads its expert's matrix; nothing is counted
      time.hbm_bytes += (static_cast<double>(slots) - touched) * matrix_bytes;
      time.fixed_us -= kRoutingUs;
    }
    time.hbm_us = time.hbm_bytes / (model.hbm_bytes_per_us * (warps ? kWarpDotHbmShare : 1));
    const double rate = !warps          ? kDotFlopPerUs
                        : p.HasScales() ? kWarpDotCodeFlopPerUs
                                        : kWarpDotFlopPerUs;
    time.tensor_us = 2 * Elements(slots, p.WeightColumns(), p.k) / rate;
    time.total_us = time.fixed_us + std::max(time.hbm_us, time.tensor_us);
    time.bound = time.tensor_us > time.hbm_us ? "tensor" : "hbm";
    return time;
  }
  const Spread spread{touched, of_expert};
  if (p.HasCodes()) {
    PredictFourBit(p, s, spread, model, &time);
  } else if (s.swapped > 0) {
    PredictSwapped(p, s, spread, model, &time);
  } else {
    PredictTiles(p, s, spread, model, &time);
  }
  const double most = std::max({time.hbm_us, time.l2_us, time.tensor_us});
  time.bound = most == time.hbm_us ? "hbm" : most == time.l2_us ? "l2" : "tensor";
  const double others = time.hbm_us + time.l2_us + time.tensor_us - most;
  time.total_us = time.fixed_us + most + kOverlapLoss * others;
  return time;
}

std::vector<RankedGrouped> SearchGrouped(const GroupedProduct& p, int64_t bucket,
                                         const DeviceModel& model, bool batch_invariant) {
  std::vector<RankedGrouped> ranked;
  const int64_t slots = p.Rows(bucket) * p.slots;
  const auto add = [&](GroupedSchedule s) {
    const int64_t blocks = s.ClusterBlocks();
    const int64_t tiles =
        s.block_m == 0 ? slots : MostTiles(slots, p.experts + 1, blocks * s.block_m);
    const int64_t resident = s.swapped > 0 ? model.ResidentBlocks(s.ClusterBlocks()) / blocks
                                           : int64_t{model.sm_count} * BlocksPerSm(p, s);
    const int64_t most = std::max<int64_t>(1, resident);
    s.grid = static_cast<int>(blocks * std::clamp<int64_t>(tiles * TilesN(p, s), 1, most));
    absl::StatusOr<Prediction> time = PredictSchedule(p, s, bucket, model);
    if (time.ok()) ranked.push_back({s, *std::move(time)});
  };
  if (p.HasCodes()) {
    if (batch_invariant) return ranked;
    for (const int block_m : {8, 16, 32}) {
      for (int slices = 1; slices <= 4; ++slices) {
        for (int block_n = 32; block_n <= 256; block_n += 16) {
          for (const int stages : {10, 9, 8, 7, 6, 5, 4, 3}) {
            const size_t before = ranked.size();
            add({block_m, block_n, stages, 1, 0, slices});
            if (ranked.size() > before) break;  // as many as fit
          }
        }
      }
    }
    SortByTime(&ranked);
    return ranked;
  }
  for (const int block_m : {64, 128}) {
    for (const int block_n : {64, 128, 256}) {
      for (const int stages : {4, 5, 6, 8, 12}) add({block_m, block_n, stages, 1});
    }
  }
  if (!batch_invariant) add({0, 1, 0, 1});
  const double touched = ExpectedExperts(p.experts, p.slots, p.Rows(bucket));
  if (!batch_invariant && static_cast<double>(slots) >= kLeastSlotsOfExpert * touched) {
    for (const int blocks : {1, 2}) {
      add({128, 256, 4, 1, blocks});  // refused of e4m3
      add({64, 256, 5, 1, blocks});
    }
  }
  SortByTime(&ranked);
  add({0, 0, 0, 1});  // for what tensor cores do not take, and where a compiler refuses the others
  return ranked;
}

}  // namespace sinter
