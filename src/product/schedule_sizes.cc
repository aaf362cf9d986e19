#include <algorithm>

#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr int64_t kAlignSlack = 1024;  // the base of dynamic shared memory is rounded up to this
constexpr int64_t kBarrierBytes = 1024;
constexpr int64_t kRowPadBytes = 8192;  // a wgmma of the last stage reads 64 rows of 128 bytes

int64_t ReduceBytes(const Schedule& s, const ProductTile& tile, int ranks, int width) {
  if (ranks <= 1) return 0;
  const int64_t owned = CeilDiv(s.block_m, ranks);
  return int64_t{4} * ranks * (s.swapped ? RoundUp(owned, 2) : owned) * width * tile.block_n;
}

// Results of a tile, f32, before they are codes: the rows that a block owns, 16 bytes more a row.
int64_t StagedBytes(const MatrixProduct& p, const Schedule& s) {
  if (!p.epilogue.quantize.has_value()) return 0;
  const int64_t owned = CeilDiv(s.block_m, s.first.split_k);
  return (s.swapped ? RoundUp(owned, 2) : owned) * 4 * (s.first.block_n + 4);
}

int64_t Units(int64_t row_tiles, int64_t columns, const ProductTile& tile, Share share) {
  return CeilDiv(row_tiles, TilesM(share)) * CeilDiv(CeilDiv(columns, tile.block_n), TilesN(share));
}

// Whether all that a kernel stores, and reads beside its accumulators, has 16 bits a value.
bool KeepsTo16Bits(const MatrixProduct& p) {
  const EpilogueProgram& program = p.epilogue.program;
  if (SizeOf(p.result) != 2 || p.epilogue.quantize.has_value()) return false;
  for (int i = 0; i < p.AuxResults(); ++i)
    if (SizeOf(program.AuxType(i)) != 2) return false;
  return !p.epilogue.has_residual() || SizeOf(program.MatrixType()) == 2;
}

}  // namespace

bool PermutesColumns(const ProductSequence& sequence, const Schedule& s) {
  const MatrixProduct& p = sequence.front();
  if (!RowOf(s).permutes_weights || s.swapped || s.first.split_k != 1) return false;
  if (sequence.layout() != Layout::kOI || !KeepsTo16Bits(p)) return false;
  const Operand& rows = p.rows;
  const bool counts_taps = rows.source == Source::kWindow && rows.window.CountsTaps();
  const int box = s.first.block_n / s.warpgroups_n / TilesM(s.share);
  return !counts_taps && p.n % kPermutedRows == 0 && box % kPermutedRows == 0;
}

ScheduleSizes SizesOf(const ProductSequence& sequence, const Schedule& s) {
  if (sequence.products.empty()) return {};
  const MatrixProduct &first = sequence.front(), &last = sequence.back();
  const int width = FirstWidth(sequence, s);
  const bool two = sequence.size() == 2;
  const DataflowRow& row = RowOf(s);
  const int64_t a = int64_t{s.block_m} * s.block_k * first.rows.bytes();
  const int64_t w1 = int64_t{width} * s.first.block_n * s.block_k * first.weights.bytes();
  const int64_t c = two ? int64_t{s.block_m} * s.block_k * last.rows.bytes() : 0;
  const int64_t w2 = two ? int64_t{s.second.block_n} * s.block_k * last.weights.bytes() : 0;

  ScheduleSizes z;
  // C in the workspace is loaded through the ring.
  z.stage_bytes = std::max(a + w1, row.writes_c ? c + w2 : w2);
  if (row.resident_bytes != nullptr) {
    z.stage_bytes = a;
    z.weights_bytes = row.resident_bytes(sequence, s);
  }
  z.kept_bytes = RoundUp(KeptColumns(sequence, s), s.block_k) * s.block_m * first.ResultBytes();
  z.reduce_bytes = ReduceBytes(s, s.first, s.first.split_k * GateRanks(s), width);
  z.accumulators = AccumulatorsOf(s, s.first, width);
  if (two) {
    z.reduce_bytes = std::max(z.reduce_bytes, ReduceBytes(s, s.second, s.second.split_k, 1));
    z.accumulators = std::max(z.accumulators, AccumulatorsOf(s, s.second, 1));
  }
  const int64_t pad = !s.swapped && s.block_m < 64 * s.warpgroups_m ? kRowPadBytes : 0;
  z.shared_bytes = kAlignSlack + s.stages * z.stage_bytes + z.kept_bytes + z.weights_bytes +
                   z.reduce_bytes + StagedBytes(last, s) + pad + kBarrierBytes;
  z.row_tiles = CeilDiv(sequence.rows(), s.block_m);
  z.first_tiles = z.row_tiles * CeilDiv(first.n, s.first.block_n);
  z.second_tiles = two ? z.row_tiles * CeilDiv(last.n, s.second.block_n) : 0;
  if (row.unit_products > 0) z.units = Units(z.row_tiles, first.n, s.first, s.share);
  if (row.unit_products > 1) z.units += Units(z.row_tiles, last.n, s.second, s.second_share);
  // One flag for each block's parts of E, or for each rank's part of a tile of C.
  const int64_t flags = row.ranges ? s.grid : z.first_tiles * s.first.split_k;
  if (row.cooperative) z.flag_bytes = 4 * (kFlagHeaderWords + flags);
  if (row.writes_c) z.c_bytes = sequence.rows() * first.n * first.ResultBytes();
  if (row.ranges) z.partial_out_bytes = int64_t{4} * s.grid * s.block_m * s.second.block_n;
  return z;
}

}  // namespace sinter
