#include <algorithm>

#include "src/model/search.h"
#include "src/product/schedule_check.h"
#include "src/product/search/product_load.h"

namespace sinter {
namespace {

// Bytes of a tile's f32 accumulators: what one rank holds, and what the owner reads to add all
// ranks' parts.
double TileBytes(const ProductDims& d, const Schedule& s, const ProductTile& tile) {
  return 4.0 * s.block_m * d.width * tile.block_n;
}

// Instructions for one value, as src/device/tile/activation.cuh is written, and special function
// instructions besides.
struct ActivationCount {
  int instructions = 0, special = 0;
};

ActivationCount CountOf(Activation activation, bool f32) {
  switch (activation) {
    case Activation::kSilu:
      return {0, 2};
    case Activation::kGeluTanh:
      return {4, 2};
    case Activation::kGeluErf:
      return f32 ? ActivationCount{24, 1} : ActivationCount{11, 2};
    default:
      return {};
  }
}

// Issue slots of a warp scheduler: a special function takes several.
double CyclesOf(Activation activation, const MatrixProduct& p, const DeviceModel& model) {
  const ActivationCount count = CountOf(activation, p.result == DType::kF32);
  return count.instructions + count.special * model.lanes_per_sm / model.special_lanes_per_sm;
}

// Cycles of a program that code generation writes.
double CyclesOf(const EpilogueProgram& program, const DeviceModel& model) {
  if (!program.written()) return 0;
  const OpCost cost = CostOfProgram(program);
  return cost.issue + cost.special * model.lanes_per_sm / model.special_lanes_per_sm;
}

// Instructions of a column term for each accumulator: its share of a load, of a conversion, and an
// operation.
constexpr int kTermInstructions = 3;

// A thread's accumulators of one matrix.
double Values(const Schedule& s, const ProductTile& tile) {
  const double columns = s.swapped ? SwappedSets(s, tile, 1) * s.block_m : tile.block_n;
  return columns / 2.0 / tile.split_k;
}

// A scheduler has a warp of each warpgroup. The end of one of two lies under the last products of
// the other; the ends of three follow one another.
int EndsInTurn(const Schedule& s) {
  const int warpgroups = s.warpgroups_m * s.warpgroups_n;
  return warpgroups > 2 ? warpgroups : 1;
}

// Bytes that a block sends to others.
double ReduceBytes(const ProductDims& d, const Schedule& s, const ProductTile& tile) {
  if (tile.split_k == 1) return 0;
  return TileBytes(d, s, tile) * (tile.split_k - 1) / tile.split_k;
}

// An approximation of log2, linear between powers of two: equal on every machine, unlike log2.
double Doublings(double readers) {
  double doublings = 0;
  for (; readers >= 2; readers /= 2) doublings += 1;
  return doublings + std::max(0.0, readers - 1);
}

// Bytes that many blocks read at about the same time cost L2 less, but far more than one read.
// `rate`: with one reader; `gain`: the part of `rate` that each doubling of the readers adds.
double L2Us(const L2Stream& stream, double rate, double gain, const DeviceModel& model) {
  if (stream.bytes == 0) return 0;
  return stream.bytes * (1 + model.l2_straddle_loss * stream.straddling) /
         std::min(rate * (1 + gain * Doublings(stream.readers)), model.l2_shared_bytes_per_us);
}

double L2Us(const ProductLoad& load, const DeviceModel& model) {
  const double rate = model.l2_bytes_per_us, gain = model.l2_reader_gain;
  return L2Us(load.weights, rate, gain, model) +
         L2Us(load.rows, load.windows ? model.l2_window_bytes_per_us : model.l2_rows_bytes_per_us,
              model.l2_rows_reader_gain, model) +
         L2Us(load.residual, rate, gain, model) + L2Us(load.scales, rate, gain, model) +
         L2Us(load.result, rate, gain, model);
}

}  // namespace

double DsmBytesPerUs(int cluster, const DeviceModel& model) {
  return model.dsm_bytes_per_us[static_cast<size_t>(ClusterIndex(cluster))] / model.sm_count;
}

double ReduceUs(const ProductDims& d, const Schedule& s, const ProductTile& tile,
                const DeviceModel& model) {
  if (tile.split_k == 1) return 0;
  return ReduceBytes(d, s, tile) / DsmBytesPerUs(s.cluster, model) + model.reduce_us +
         TileBytes(d, s, tile) / model.shared_bytes_per_us;
}

double ReduceTraffic(const ProductDims& d, const Schedule& s, const ProductTile& tile) {
  return tile.split_k == 1 ? 0 : TileBytes(d, s, tile) * tile.split_k;
}

double ComputeUs(const MatrixProduct& p, const Schedule& s, const ProductTile& tile,
                 const DeviceModel& model) {
  const double cycles = CyclesOf(p.epilogue.activation(), p, model) +
                        CyclesOf(p.epilogue.sum_activation(), p, model) +
                        CyclesOf(p.epilogue.program, model) + kTermInstructions * p.ColumnTerms();
  return EndsInTurn(s) * Values(s, tile) * cycles / model.clock_mhz;
}

double EpilogueUs(const MatrixProduct& p, const Schedule& s, const ProductTile& tile,
                  const DeviceModel& model) {
  return Values(s, tile) * (1 + p.AuxResults()) * model.epilogue_value_us +
         ComputeUs(p, s, tile, model);
}

double StoreUs(const ProductDims& d, int64_t rows, const Schedule& s, const ProductTile& tile,
               const DeviceModel& model) {
  const double own = static_cast<double>(std::min<int64_t>(s.block_m, rows)) / tile.split_k;
  return 2 * static_cast<double>(d.result_bytes) * own * tile.block_n /
         model.sm_intake_bytes_per_us;
}

LevelTimes TimesOf(const ProductLoad& load, const Schedule& s, double stage_bytes,
                   const DeviceModel& model) {
  LevelTimes t;
  const double idle = std::max(0.0, 1 - static_cast<double>(load.busy_blocks) / model.sm_count);
  t.hbm = (load.hbm_bytes + load.result.bytes) /
          (model.hbm_bytes_per_us * (1 - model.hbm_idle_loss * idle));
  t.l2 = L2Us(load, model);
  t.shared = load.shared_bytes / model.shared_bytes_per_us;
  t.tensor = load.flop / ((load.codes ? model.tensor_fp8_flop_per_us : model.tensor_flop_per_us) /
                          model.sm_count);
  // Two warpgroups take turns at the tensor cores; a single one leaves them idle between stages,
  // and while it adds sums.
  const double adding = load.promoted_values / model.clock_mhz;
  if (s.warpgroups_m * s.warpgroups_n == 1)
    t.tensor += static_cast<double>(load.steps) * model.lone_step_us + adding;
  t.tensor = std::max({t.tensor, adding, load.norm_slots / model.clock_mhz}) +
             load.scale_reads / model.clock_mhz;
  // Intake of one SM: its bandwidth, the producer's loop, or the latency of a ring of loads. One
  // stage is always with the consumers. The first turn of the ring is the fill, counted elsewhere.
  const double bandwidth = load.intake_bytes / model.sm_intake_bytes_per_us;
  const double loop = static_cast<double>(load.steps) * model.stage_us;
  const double ring = stage_bytes * std::max(1, s.stages - 1);
  const double latency = std::max(0.0, load.block_bytes / ring - 1) * model.fill_us;
  // A stage's cost covers a box of rows and one of weights. While an SM loads more boxes, it asks
  // for nothing else.
  const double boxes = static_cast<double>(load.more_boxes) * model.stage_us / 2;
  t.intake = std::max({bandwidth, loop, latency}) + boxes;
  t.l2 += boxes;
  return t;
}

double Combine(const LevelTimes& levels) {
  return FourNorm({levels.hbm, levels.l2, levels.intake, levels.shared, levels.tensor});
}

}  // namespace sinter
