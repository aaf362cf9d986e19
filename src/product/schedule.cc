#include "src/product/schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/search/product_load.h"

namespace sinter {
namespace {

// Versions of dataflows of version 2 with a knob that is not at its default. Schedules without the
// knob keep the bytes that they had before it was added. Other versions belong to one dataflow.
constexpr uint8_t kScheduleVersion = 2, kSwappedVersion = 6;
constexpr uint8_t kPushVersion = 8, kSwappedPushVersion = 9;
constexpr uint8_t kPushedColumnsVersion = 10, kSwappedPushedColumnsVersion = 11;

uint8_t VersionOf(const Schedule& s) {
  if (s.pushed_columns != 0) {
    return s.swapped ? kSwappedPushedColumnsVersion : kPushedColumnsVersion;
  }
  if (s.pushes != 0) return s.swapped ? kSwappedPushVersion : kPushVersion;
  return s.swapped ? kSwappedVersion : RowOf(s).version;
}

bool IsPush(uint8_t version) {
  return version >= kPushVersion && version <= kSwappedPushedColumnsVersion;
}
bool PushesColumns(uint8_t version) { return IsPush(version) && version >= kPushedColumnsVersion; }

const DataflowRow* RowOfBytes(uint8_t dataflow, uint8_t version) {
  const bool knob = version == kSwappedVersion || IsPush(version);
  return FindDataflow(dataflow, knob ? kScheduleVersion : version);
}

bool HasCut(const DataflowRow& row) { return row.cut[0] != 0; }

// Writes or reads, by the codec, what follows the version and the dataflow's byte.
template <typename Codec, typename Knobs>
void KnobFields(Codec& codec, Knobs& s, const DataflowRow* row, uint8_t version) {
  codec(Byte(s.share, 2), Word(s.block_m), Word(s.warpgroups_m), Word(s.warpgroups_n),
        Word(s.block_k), Word(s.stages), Word(s.cluster), Word(s.grid), Word(s.first.block_n),
        Word(s.first.split_k), Word(s.second.block_n), Word(s.second.split_k));
  if (row != nullptr && HasCut(*row)) codec(Word(s.cut));
  if (IsPush(version)) codec(Byte(s.pushes));
  if (PushesColumns(version)) codec(Word(s.pushed_columns));
}

// "72/4"
std::string TileText(const ProductTile& tile) {
  return absl::StrCat(tile.block_n, "/", tile.split_k);
}

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

// Whether all values that a kernel stores, and reads besides its accumulators, have 16 bits.
bool KeepsTo16Bits(const MatrixProduct& p) {
  const EpilogueProgram& program = p.epilogue.program;
  if (SizeOf(p.result) != 2 || p.epilogue.quantize.has_value()) return false;
  for (int i = 0; i < p.AuxResults(); ++i)
    if (SizeOf(program.AuxType(i)) != 2) return false;
  return !p.epilogue.has_residual() || SizeOf(program.MatrixType()) == 2;
}

}  // namespace

absl::string_view NameOf(Share share) {
  constexpr absl::string_view kNames[] = {"none", "weights", "rows"};
  const auto index = static_cast<size_t>(share);
  return index < 3 ? kNames[index] : "invalid";
}

std::string Schedule::Canonical() const {
  ByteWriter w;
  const uint8_t version = VersionOf(*this);
  w(version, RowOf(*this).byte);
  KnobFields(w, *this, &RowOf(*this), version);
  return w.Take();
}

absl::StatusOr<Schedule> Schedule::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint8_t version = r.U8();
  const uint8_t dataflow = r.U8();
  const DataflowRow* row = RowOfBytes(dataflow, version);
  Schedule s;
  KnobFields(r, s, row, version);
  if (row == nullptr) {
    return DataLoss("schedule: there is no dataflow ", dataflow, " of version ", version);
  }
  SINTER_RETURN_IF_ERROR(r.Finish("schedule"));
  s.swapped = version == kSwappedVersion || version == kSwappedPushVersion ||
              version == kSwappedPushedColumnsVersion;
  s.dataflow = row->dataflow;
  if (s.Canonical() != bytes) return absl::DataLossError("schedule: a field is written otherwise");
  return s;
}

std::string Schedule::ToString() const {
  const DataflowRow& row = RowOf(*this);
  std::string text = absl::StrCat(row.name, " bm", block_m, " wg", warpgroups_m, "x", warpgroups_n,
                                  " bk", block_k, " st", stages, " cl", cluster);
  if (swapped) absl::StrAppend(&text, " swapped");
  if (HasCut(row)) absl::StrAppend(&text, " ", row.cut, cut);
  if (pushes > 0) absl::StrAppend(&text, " pushes", pushes);
  if (pushed_columns > 0) absl::StrAppend(&text, " columns", pushed_columns);
  if (grid > 0) absl::StrAppend(&text, " grid", grid);
  absl::StrAppend(&text, " first ", TileText(first));
  if (share != Share::kNone) absl::StrAppend(&text, " share-", NameOf(share));
  if (row.products > 1) absl::StrAppend(&text, " second ", TileText(second));
  return text;
}

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
  if (row.takes_units) z.units = Units(z.row_tiles, first.n, s.first, s.share);
  // One flag for each block's parts of E, or for each rank's part of a tile of C.
  const int64_t flags = row.ranges ? s.grid : z.first_tiles * s.first.split_k;
  if (row.cooperative) z.flag_bytes = 4 * (kFlagHeaderWords + flags);
  if (row.writes_c) z.c_bytes = sequence.rows() * first.n * first.ResultBytes();
  if (row.ranges) z.partial_out_bytes = int64_t{4} * s.grid * s.block_m * s.second.block_n;
  return z;
}

int64_t TurnsOf(const ProductSequence& sequence, const Schedule& s) {
  const int64_t clusters = std::max(1, s.grid / std::max(1, s.cluster));
  return std::max<int64_t>(1, CeilDiv(SizesOf(sequence, s).units, clusters));
}

int64_t EarlyColumns(const ProductSequence& sequence, const Schedule& s) {
  // UnitWalk of the device library: bands of rows, in each the columns one after another.
  const bool dealt = s.cluster == 1 && sequence.WeightBytes() <= kDealtWeightBytes;
  const int64_t clusters = std::max(1, s.grid / std::max(1, s.cluster));
  const int64_t last = (TurnsOf(sequence, s) - 1) * clusters;
  const int64_t tile = int64_t{s.first.block_n} * TilesN(s.share);
  const int64_t columns = CeilDiv(sequence.front().n, tile);
  const int64_t rows = CeilDiv(CeilDiv(sequence.rows(), s.block_m), TilesM(s.share));
  const int64_t last_band = dealt ? rows / std::max<int64_t>(1, (rows + 1) / kDealtBandUnits)
                                  : (rows - 1) % kBandUnits + 1;
  const int64_t early = std::max<int64_t>(0, last - (rows - last_band) * columns) / last_band;
  return std::min(early, columns - 1) * tile;
}

}  // namespace sinter
