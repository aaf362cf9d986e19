#include "src/search/product_load.h"

#include <algorithm>
#include <numeric>

#include "src/base/ceil_div.h"

namespace sinter {
namespace {

constexpr int64_t kElement = 2;  // bytes: bf16 and f16
constexpr int64_t kStepK = 16;   // K of one wgmma
constexpr int64_t kWarpgroupRows = 64;

// Of the 128-byte rows of boxes of a matrix with `columns` columns, the share that lies in two
// lines: rows begin where a multiple of the stride does, so every start that it can have is as
// frequent.
double Straddling(int64_t columns, const DeviceModel& model) {
  const int64_t line = model.l2_line_bytes;
  return 1 - static_cast<double>(std::gcd(columns * kElement, line)) / static_cast<double>(line);
}

// The largest tensor that L2 keeps until it is read again.
double KeptBytes(const DeviceModel& model) {
  return model.l2_kept_share * static_cast<double>(model.l2_bytes);
}

// Rows times columns times 2 bytes that L2 cannot keep are read again on every turn.
double ReadsFromHbm(double bytes, int64_t turns, const DeviceModel& model) {
  return bytes <= KeptBytes(model) ? bytes : bytes * static_cast<double>(turns);
}

// Each element once, by who stores it; it loads beside the product's operands.
void AddResidual(const ProductDims& d, const FfnProblem& p, double share_bytes, ProductLoad* load) {
  if (!d.residual) return;
  const auto bytes = static_cast<double>(p.bucket * d.n * kElement);
  load->residual = {bytes, 1, 0};
  load->total_bytes += bytes;
  load->hbm_bytes += bytes;
  load->intake_bytes += static_cast<double>(load->turns) * share_bytes;
}

}  // namespace

ProductDims FirstDims(const FfnProblem& p, const Schedule& s) {
  const bool last = p.products == 1;
  // Gate and up apart: twice the columns, a block's tile is of one of them.
  if (s.spatial_gate) return {2 * p.n, p.k, 1};
  ProductDims d{p.n,    p.k, p.FirstWidth(), true, true, last && p.residual != Residual::kNone,
                s.share};
  d.to_memory = last;
  return d;
}

ProductDims SecondDims(const FfnProblem& p, const Schedule& s) {
  const bool in_ring = s.dataflow != Dataflow::kClusterExchange;
  const int64_t k = s.slab_columns > 0 ? s.slab_columns : p.n;
  return {p.l, k, 1, in_ring, false, p.residual != Residual::kNone, s.second_share, s.clusters_n};
}

ProductDims SpilledDims(const FfnProblem& p, const Schedule& s) {
  ProductDims d{p.l, p.n - s.slab_columns, 1, true, false};
  d.to_memory = false;  // counted with the rest of C
  return d;
}

ProductLoad LoadOf(const ProductDims& d, const FfnProblem& p, const Schedule& s,
                   const ProductTile& tile, int64_t concurrent, const DeviceModel& model) {
  // What a group takes at once: a tile, or the two tiles of a pair of blocks.
  const int64_t m_units = CeilDiv(CeilDiv(p.bucket, s.block_m), TilesM(d.share));
  int64_t column_tiles = CeilDiv(d.n, tile.block_n);
  if (s.dataflow == Dataflow::kClusterExchange) {  // blocks without columns walk along
    column_tiles = CeilDiv(column_tiles, s.cluster) * s.cluster;
  }
  const int64_t column_units = CeilDiv(column_tiles, TilesN(d.share));
  const int64_t units = m_units * column_units;
  const int64_t k_parts = int64_t{tile.split_k} * d.clusters;
  const int64_t group_blocks = k_parts * TilesOf(d.share);
  const int64_t rows = std::min<int64_t>(s.block_m, p.bucket);
  const int64_t columns = std::min<int64_t>(tile.block_n, d.n);
  const int64_t steps = CeilDiv(CeilDiv(d.k, s.block_k), k_parts);
  const int64_t k = std::min<int64_t>(d.k, steps * s.block_k);
  const int64_t warpgroups = s.warpgroups_m * s.warpgroups_n;

  ProductLoad load;
  load.units = units;
  load.groups = std::max<int64_t>(1, concurrent / group_blocks);
  load.turns = CeilDiv(units, load.groups);
  load.busy_blocks = std::min(units, load.groups) * group_blocks;
  load.steps = load.turns * steps;
  const double row_bytes = d.rows_in_ring ? static_cast<double>(rows * k * kElement) : 0;
  const double weight_bytes = static_cast<double>(d.width * columns * k * kElement);
  const auto turns = static_cast<double>(load.turns);
  load.weight_bytes = turns * weight_bytes;
  load.block_bytes = turns * (row_bytes + weight_bytes);
  const double a_bytes = static_cast<double>(p.bucket * d.k * kElement);
  const double w_bytes = static_cast<double>(d.width * d.n * d.k * kElement);
  // Units run M fastest: the readers of weights first, then those of rows.
  const int64_t at_once = std::min(units, load.groups);
  load.weights = {static_cast<double>(m_units) * w_bytes,
                  static_cast<double>(std::min(m_units, at_once)),
                  Straddling(p.layout == Layout::kIO ? d.n : d.k, model)};
  load.rows = {d.rows_in_ring ? static_cast<double>(column_units) * a_bytes : 0,
               static_cast<double>(std::clamp<int64_t>(at_once / m_units, 1, column_units)),
               Straddling(d.k, model)};
  load.total_bytes = load.weights.bytes + load.rows.bytes;
  load.intake_bytes =
      turns * (row_bytes * (1 + model.l2_straddle_loss * load.rows.straddling) +
               weight_bytes * (1 + model.l2_straddle_loss * load.weights.straddling));
  load.hbm_bytes = w_bytes;
  if (d.rows_from_hbm || a_bytes > KeptBytes(model)) {
    load.hbm_bytes += ReadsFromHbm(a_bytes, load.turns, model);
  }
  if (d.to_memory) load.result = {static_cast<double>(p.bucket * d.n * kElement), 1, 0};
  AddResidual(d, p, static_cast<double>(rows * columns * kElement / k_parts), &load);
  const int64_t stage = (d.rows_in_ring ? s.block_m : 0) + d.width * tile.block_n;
  // A warpgroup's wgmmas side by side, and the columns of all of them: a thread holds half as many
  // accumulators.
  const int64_t sets = s.swapped ? SwappedSets(s, tile, d.width) : 1;
  const int64_t warp_columns = 2 * AccumulatorsOf(s, tile, d.width);
  const int64_t reads = warpgroups * (sets * kWarpgroupRows + warp_columns) * s.block_k;
  load.shared_bytes =
      static_cast<double>(load.steps) * static_cast<double>((stage * s.block_k + reads) * kElement);
  load.flop = static_cast<double>(load.steps) * 2.0 *
              static_cast<double>(warpgroups * kWarpgroupRows * warp_columns * s.block_k);
  return load;
}

}  // namespace sinter
