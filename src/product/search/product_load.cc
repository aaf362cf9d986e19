#include "src/product/search/product_load.h"

#include <algorithm>
#include <numeric>

#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr int64_t kWgmmaRows = 64;
// Instructions that add the squares of 16 bytes of rows (device library, tile/row_norms.cuh), and
// the threads that share a block's rows in one turn of its four warp schedulers.
constexpr int64_t kSquareInstructions = 18;
constexpr int64_t kSchedulerThreads = 128, kChunkBytes = 16;

// Share of the 128-byte rows of a matrix's boxes that lie in two cache lines. Rows start at
// multiples of `row_bytes`, so all possible offsets in a line are equally frequent.
double Straddling(int64_t row_bytes, const DeviceModel& model) {
  const int64_t line = model.l2_line_bytes;
  return 1 - static_cast<double>(std::gcd(row_bytes, line)) / static_cast<double>(line);
}

// The largest tensor that L2 keeps until it is read again.
double KeptBytes(const DeviceModel& model) {
  return model.l2_kept_share * static_cast<double>(model.l2_bytes);
}

// Bytes of rows that come from HBM, `bytes` in all: once where L2 keeps what other columns read
// again, else for each of the column units that do not run at once. Read again is a band of M
// units, or all of them where the walk has no bands. A cluster reads rows for all columns at once.
double RowsFromHbm(double bytes, const ProductDims& d, const Schedule& s, int64_t m_units,
                   int64_t column_units, int64_t at_once, const DeviceModel& model) {
  const DataflowRow& row = RowOf(s);
  const bool bands = row.takes_units;
  const int64_t again = bands ? std::min(m_units, kBandUnits) : m_units;
  const double kept = bytes * static_cast<double>(again) / static_cast<double>(m_units);
  if (row.cluster_owns_rows || kept <= KeptBytes(model)) return bytes;
  const int64_t columns = std::clamp<int64_t>(at_once / again, 1, column_units);
  return bytes * static_cast<double>(CeilDiv(column_units, columns));
}

// How a product is cut: into tiles, tiles into units, K into parts.
struct Cut {
  int64_t m_units = 0, column_units = 0;  // a unit: a tile, or the two tiles of a pair of blocks
  int64_t k_parts = 0;                    // groups of blocks that share K
  int64_t group_blocks = 0;               // that work at one unit
  int64_t rows = 0, columns = 0;          // of a tile, clipped to the matrix
  int64_t steps = 0, k = 0;               // of a tile: ring stages, and what they hold of K
  int64_t warpgroups = 0;

  int64_t units() const { return m_units * column_units; }
};

Cut CutOf(const ProductDims& d, const ProductSequence& p, const Schedule& s,
          const ProductTile& tile) {
  Cut cut;
  cut.m_units = CeilDiv(CeilDiv(p.rows(), s.block_m), TilesM(d.share));
  int64_t column_tiles = CeilDiv(d.n, tile.block_n);
  if (RowOf(s).cluster_owns_rows) {  // blocks without columns run too
    column_tiles = CeilDiv(column_tiles, s.cluster) * s.cluster;
  }
  cut.column_units = CeilDiv(column_tiles, TilesN(d.share));
  cut.k_parts = int64_t{tile.split_k} * d.clusters;
  cut.group_blocks = cut.k_parts * TilesOf(d.share);
  cut.rows = std::min<int64_t>(s.block_m, p.rows());
  cut.columns = std::min<int64_t>(tile.block_n, d.n);
  cut.steps = CeilDiv(CeilDiv(d.k, s.block_k), cut.k_parts);
  cut.k = std::min<int64_t>(d.k, cut.steps * s.block_k);
  cut.warpgroups = s.warpgroups_m * s.warpgroups_n;
  return cut;
}

void AddTurns(const Cut& cut, int64_t concurrent, ProductLoad* load) {
  load->units = cut.units();
  load->groups = std::max<int64_t>(1, concurrent / cut.group_blocks);
  load->turns = CeilDiv(load->units, load->groups);
  load->busy_blocks = std::min(load->units, load->groups) * cut.group_blocks;
  load->steps = load->turns * cut.steps;
}

// Rows and weights. Units run M fastest: first the blocks that read the same weights, then those
// that read the same rows.
void AddOperands(const ProductDims& d, const ProductSequence& p, const Schedule& s, const Cut& cut,
                 const DeviceModel& model, ProductLoad* load) {
  const double row_bytes = d.rows_in_ring ? static_cast<double>(cut.rows * cut.k * d.row_bytes) : 0;
  const double weight_bytes = static_cast<double>(d.width * cut.columns * cut.k * d.weight_bytes);
  const auto turns = static_cast<double>(load->turns);
  load->weight_bytes = turns * weight_bytes;
  load->block_bytes = turns * (row_bytes + weight_bytes);
  // In memory, a bundle's channels of pixels precede the next bundle's, so all of a stage is read.
  const double rows_filled = d.bundles > 1 ? 1 : d.filled;
  const double a_bytes = rows_filled * static_cast<double>(p.rows() * d.k * d.row_bytes);
  const double w_bytes = d.filled * static_cast<double>(d.width * d.n * d.k * d.weight_bytes);
  const int64_t pitch = d.pitch > 0 ? d.pitch : d.k;
  const int64_t at_once = std::min(load->units, load->groups);
  load->weights = {static_cast<double>(cut.m_units) * w_bytes,
                   static_cast<double>(std::min(cut.m_units, at_once)),
                   Straddling((p.layout() == Layout::kIO ? d.n : pitch) * d.weight_bytes, model)};
  load->windows = d.pitch > 0;
  load->rows = {
      d.rows_in_ring ? static_cast<double>(cut.column_units) * a_bytes : 0,
      static_cast<double>(std::clamp<int64_t>(at_once / cut.m_units, 1, cut.column_units)),
      Straddling((p.front().HasTransposedRows() ? p.rows() : pitch) * d.row_bytes, model)};
  load->total_bytes = load->weights.bytes + load->rows.bytes;
  load->intake_bytes =
      turns * (row_bytes * (1 + model.l2_straddle_loss * load->rows.straddling) +
               weight_bytes * (1 + model.l2_straddle_loss * load->weights.straddling));
  load->hbm_bytes = w_bytes;
  const double stored = d.rows_bytes > 0 ? static_cast<double>(d.rows_bytes) : a_bytes;
  if (d.rows_in_ring && (d.rows_from_hbm || stored > KeptBytes(model))) {
    load->hbm_bytes += RowsFromHbm(stored, d, s, cut.m_units, CeilDiv(cut.column_units, d.bundles),
                                   at_once, model);
  }
}

// In a grouped convolution, a box of weights has columns of one group.
void AddBoxes(const ProductDims& d, const ProductSequence& p, const Schedule& s,
              const ProductTile& tile, ProductLoad* load) {
  const MatrixProduct& product = p.front();
  if (d.product > 0 || product.BundleColumns() == 0) return;
  const int64_t half = tile.block_n / s.warpgroups_n;
  const int64_t boxes = half / std::gcd(half, product.GroupColumns()) * s.warpgroups_n;
  load->more_boxes = load->steps * CeilDiv(s.block_k, kSubtileChannels) * (boxes - s.warpgroups_n);
}

// Whoever stores an element loads its residual once, besides the product's operands. `share`: bytes
// that a block takes for a tile.
void AddResidual(const ProductDims& d, int64_t rows, int64_t share, ProductLoad* load) {
  if (d.residual_bytes == 0) return;
  const auto bytes = static_cast<double>(rows * d.n * d.residual_bytes);
  load->residual = {bytes, 1, 0};
  load->total_bytes += bytes;
  load->hbm_bytes += bytes;
  load->intake_bytes += static_cast<double>(load->turns) * static_cast<double>(share);
}

// Every tile reads the scales of its columns: `columns` of a block's.
void AddColumnScales(const ProductDims& d, int64_t m_units, int64_t columns, ProductLoad* load) {
  if (d.scale_bytes == 0) return;
  const int64_t of_column = d.width * d.scale_bytes;
  const auto bytes = static_cast<double>(d.n * of_column);
  load->scales = {static_cast<double>(m_units) * bytes, load->weights.readers, 0};
  load->total_bytes += load->scales.bytes;
  load->hbm_bytes += bytes;
  load->intake_bytes += static_cast<double>(load->turns * columns * of_column);
}

// The tensor cores' work, what they read of shared memory, and what promoted sums add to both.
void AddTensorWork(const ProductDims& d, const ProductSequence& p, const Schedule& s,
                   const ProductTile& tile, const Cut& cut, ProductLoad* load) {
  const int64_t stage =
      (d.rows_in_ring ? s.block_m * d.row_bytes : 0) + d.width * tile.block_n * d.weight_bytes;
  // wgmmas that a warpgroup issues side by side, and the columns of all of them: a thread holds
  // half as many accumulators.
  const int64_t sets = s.swapped ? SwappedSets(s, tile, d.width) : 1;
  const int64_t warp_columns = 2 * AccumulatorsOf(s, tile, d.width);
  // The operand that is wgmma's 64 rows, and the one that is its columns.
  const int64_t as_rows = s.swapped ? d.weight_bytes : d.row_bytes;
  const int64_t as_columns = s.swapped ? d.row_bytes : d.weight_bytes;
  const ElementRow element = ElementOf(p.front());
  // Each part of promoted sums reads the rows again.
  const int64_t row_reads =
      s.swapped ? 1 : PromotedParts(element, s, static_cast<int>(warp_columns));
  const int64_t reads =
      cut.warpgroups * (row_reads * sets * kWgmmaRows * as_rows + warp_columns * as_columns);
  load->shared_bytes =
      static_cast<double>(load->steps) * static_cast<double>((stage + reads) * s.block_k);
  load->codes = IsCode(p.element());
  if (element.promoted) {
    const int64_t spans = s.block_k / element.swizzle_span;
    // With swapped operands every warp reads a scale of each of its rows, four a clock.
    const bool of_rows = s.swapped && p.front().rows.scales.kind == ScaleKind::kBlock;
    const int64_t parts = load->steps * spans * cut.warpgroups;
    if (of_rows) load->scale_reads = static_cast<double>(parts * 4 * s.block_m);
    load->promoted_values = static_cast<double>(parts * warp_columns / 2);
  }
  load->flop = static_cast<double>(load->steps) * 2.0 *
               static_cast<double>(cut.warpgroups * kWgmmaRows * warp_columns * s.block_k);
}

// The squares of the rows that pass through the ring.
void AddNorm(const ProductDims& d, const ProductSequence& p, const Schedule& s, ProductLoad* load) {
  if (!p.front().epilogue.norm.has_value()) return;
  const int64_t chunks = s.block_m * s.block_k * d.row_bytes / kChunkBytes;
  load->norm_slots =
      static_cast<double>(load->steps * CeilDiv(chunks, kSchedulerThreads)) * kSquareInstructions;
}

// Between pixels. Those that fill a row of a box, or divide it, never lie in two cache lines. Of
// groups also between bundles.
int64_t PixelPitch(const PixelWindow& window) {
  if (window.grouped()) return std::gcd(window.channels, window.BundleChannels());
  return kSubtileChannels % window.channels == 0 ? kSubtileChannels : window.channels;
}

ProductDims DimsOf(const MatrixProduct& p) {
  ProductDims d;
  d.n = p.n;
  d.k = p.StagedK();
  d.filled = static_cast<double>(p.k) / static_cast<double>(d.k);
  if (p.rows.source == Source::kWindow) d.pitch = PixelPitch(p.rows.window);
  if (const int64_t bundle = p.BundleColumns(); bundle > 0) d.bundles = CeilDiv(p.n, bundle);
  d.width = p.Width();
  d.row_bytes = p.rows.bytes();
  d.weight_bytes = p.weights.bytes();
  const EpilogueProgram& program = p.epilogue.program;
  d.result_bytes = p.ResultBytes();
  for (int i = 0; i < p.AuxResults(); ++i) d.result_bytes += SizeOf(program.AuxType(i));
  if (p.epilogue.has_residual()) d.residual_bytes = SizeOf(program.MatrixType());
  if (p.HasColumnScales()) d.scale_bytes = SizeOf(p.weights.scales.element);
  return d;
}

}  // namespace

ProductDims FirstDims(const ProductSequence& p, const Schedule& s) {
  ProductDims d = DimsOf(p.front());
  d.n *= GateRanks(s);  // with one matrix a rank, a block's tile is of one of them
  d.width = FirstWidth(p, s);
  const Operand& rows = p.front().rows;
  if (rows.source == Source::kWindow) {
    const PixelWindow& w = rows.window;
    d.rows_bytes = p.m * w.height * w.width * w.channels * rows.bytes();
  }
  d.share = s.share;
  d.to_memory = p.size() == 1;
  return d;
}

ProductDims SecondDims(const ProductSequence& p, const Schedule& s) {
  ProductDims d = DimsOf(p.back());
  d.product = 1;
  const DataflowRow& row = RowOf(s);
  if (row.cluster_owns_rows && row.writes_c) d.k = KeptColumns(p, s);
  d.rows_in_ring = !row.cluster_owns_rows;
  d.rows_from_hbm = false;
  d.clusters = RangesOf(s);
  return d;
}

ProductDims RestDims(const ProductSequence& p, const Schedule& s) {
  ProductDims d = DimsOf(p.back());
  d.product = 1;
  d.k -= KeptColumns(p, s);
  d.rows_from_hbm = false;
  d.residual_bytes = d.scale_bytes = 0;
  d.to_memory = false;  // the store is counted with the rest of C
  return d;
}

ProductLoad LoadOf(const ProductDims& d, const ProductSequence& p, const Schedule& s,
                   const ProductTile& tile, int64_t concurrent, const DeviceModel& model) {
  const Cut cut = CutOf(d, p, s, tile);
  ProductLoad load;
  AddTurns(cut, concurrent, &load);
  AddOperands(d, p, s, cut, model, &load);
  AddBoxes(d, p, s, tile, &load);
  if (d.to_memory) load.result = {static_cast<double>(p.rows() * d.n * d.result_bytes), 1, 0};
  AddResidual(d, p.rows(), cut.rows * cut.columns * d.residual_bytes / cut.k_parts, &load);
  AddColumnScales(d, cut.m_units, cut.columns, &load);
  AddTensorWork(d, p, s, tile, cut, &load);
  AddNorm(d, p, s, &load);
  return load;
}

}  // namespace sinter
