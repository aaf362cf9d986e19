#include "src/product/search/fixed_costs.h"

#include <algorithm>

#include "src/product/program_cost.h"

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

// Of a program that code generation writes.
double CyclesOf(const EpilogueProgram& program, const DeviceModel& model) {
  if (!program.written()) return 0;
  const OpCost cost = CostOfProgram(program);
  return cost.issue + cost.special * model.lanes_per_sm / model.special_lanes_per_sm;
}

// Of a column term, for each accumulator: its share of a load, of a conversion, and an operation.
constexpr int kTermInstructions = 3;

// A thread's accumulators of one matrix.
double Values(const Schedule& s, const ProductTile& tile) {
  const double columns = s.swapped ? SwappedSets(s, tile, 1) * s.block_m : tile.block_n;
  return columns / 2.0 / tile.split_k;
}

// Bytes that a block sends to others.
double ReduceBytes(const ProductDims& d, const Schedule& s, const ProductTile& tile) {
  if (tile.split_k == 1) return 0;
  return TileBytes(d, s, tile) * (tile.split_k - 1) / tile.split_k;
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
  return Values(s, tile) * cycles / model.clock_mhz;
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

}  // namespace sinter
