#include "src/four_bit/four_bit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr uint8_t kProductVersion = 3, kScheduleVersion = 1;
constexpr int64_t kAlignment = 1024;
constexpr int64_t kMostStride = int64_t{1} << 40;

absl::Status Lost(absl::string_view what) { return DataLoss("product of four bits: ", what); }

// Rows and weights have 16 bits, no scales, and lie in memory row by row.
absl::Status CheckOperands(const MatrixProduct& p) {
  const bool elements = p.rows.element == DType::kBF16 || p.rows.element == DType::kF16;
  if (!elements || p.weights.element != p.rows.element) {
    return InvalidField("dtype of rows", NameOf(p.rows.element), "bf16 or f16, as the weights");
  }
  Operand plain;
  plain.element = p.rows.element;
  if (p.rows != plain || p.weights != plain || p.k_is_m) {
    return Invalid("rows and weights must be matrices [.., k] without scales of their own");
  }
  return absl::OkStatus();
}

}  // namespace

int64_t FourBitProduct::WeightBytes() const {
  return product.Width() * product.n * weights.ColumnBytes(product.k);
}

std::string FourBitProduct::ToString() const {
  const ProductSequence sequence{0, 1, {product}};
  std::string text = absl::StrCat(sequence.ToString(), weights.ToString());
  if (fixed_rows > 0) absl::StrAppend(&text, " rows=", fixed_rows);
  return text;
}

void FourBitProduct::Write(ByteWriter& w) const {
  const std::string bytes = ProductSequence{0, 1, {product}}.Canonical();
  w(kProductVersion, bytes, weights, fixed_rows, row_stride, residual_stride, out_stride);
}

absl::StatusOr<FourBitProduct> FourBitProduct::Read(ByteReader& r) {
  if (r.U8() != kProductVersion) return Lost("version");
  FourBitProduct p;
  const std::string bytes(r.Bytes());
  r(p.weights, p.fixed_rows, p.row_stride, p.residual_stride, p.out_stride);
  if (!r.ok()) return Lost("too short");
  SINTER_ASSIGN_OR_RETURN(const ProductSequence sequence, ProductSequence::FromCanonical(bytes));
  if (sequence.size() != 1 || p.weights.zero > FourBitZero::kGroups) return Lost("fields");
  p.product = sequence[0];
  if (!CheckFourBitProduct(p).ok()) return Lost("fields");
  return p;
}

absl::Status CheckFourBitProduct(const FourBitProduct& p) {
  const MatrixProduct& product = p.product;
  SINTER_RETURN_IF_ERROR(CheckOperands(product));
  if (product.epilogue.norm.has_value() || product.epilogue.quantize.has_value() ||
      product.AuxResults() > 0) {
    return Invalid("an epilogue with a norm, a quantiser or auxiliary results has no kernel");
  }
  if (product.result != DType::kF32 && product.result != product.rows.element) {
    return InvalidField("dtype of the result", NameOf(product.result), "f32 or the weights'");
  }
  SINTER_RETURN_IF_ERROR(CheckFourBitWeights(p.weights, product.n, product.k));
  if (p.weights.packed && IsWide(p.weights, product.weights.element)) {
    return Invalid("scales and zeros of packed weights must have the dtype of the rows, ",
                   NameOf(product.rows.element), ", and a constant zero must be a number of it");
  }
  for (const auto& [name, stride] :
       {std::make_pair("residual", p.residual_stride), std::make_pair("result", p.out_stride)}) {
    if (stride >= 0 && stride <= kMostStride) continue;
    return InvalidField(absl::StrCat("stride of ", name), stride, "at least 0 and at most 2^40");
  }
  constexpr int64_t kVector = 8;  // elements in 16 bytes
  if (p.row_stride % kVector != 0 || p.row_stride < product.k || p.row_stride > kMostStride) {
    return InvalidField("elements between rows", p.row_stride,
                        absl::StrCat("a multiple of ", kVector, " from ", product.k, " on"));
  }
  return absl::OkStatus();
}

std::string FourBitSchedule::ToString(bool with_grid) const {
  std::string text =
      absl::StrCat("tiles", tiles, " slices", slices, " cl", split, " bm", block_m, " st", stages);
  if (with_grid) absl::StrAppend(&text, " grid", grid);
  return text;
}

int FourBitSchedule::LoadWarps(const FourBitProduct& p) const {
  if (p.weights.packed) return block_m <= 16 ? 1 : 0;
  return RowPieces() <= 4 ? RowPieces() : (RowPieces() + 1) / 2;
}

absl::StatusOr<FourBitSchedule> FourBitSchedule::Read(ByteReader& r) {
  FourBitSchedule s;
  r(s);
  if (!r.ok()) return Lost("schedule");
  return s;
}

namespace {

int64_t StageBytes(const FourBitProduct& p, const FourBitSchedule& s) {
  const int64_t of_k = s.slices * kSliceK, columns = p.TileColumns() * s.tiles;
  const int64_t codes = p.product.Width() * columns * of_k / 2, rows = s.block_m * of_k * 2;
  if (!p.weights.packed) return codes + rows;
  const int64_t arrays = p.product.Width() * (p.weights.HasZeros() ? 2 : 1);
  const int64_t scales = arrays * of_k / p.weights.group * columns * 2;
  return CeilDiv(codes + rows + scales, kAlignment) * kAlignment;
}

// The bytes of sums, which take the place of the stages.
int64_t SumBytes(const FourBitProduct& p, const FourBitSchedule& s) {
  return int64_t{4} * p.product.Width() * s.slices * s.block_m * (p.TileColumns() * s.tiles + 4);
}

}  // namespace

int64_t SharedMemoryBytes(const FourBitProduct& p, const FourBitSchedule& s) {
  return kAlignment + s.stages * StageBytes(p, s);
}

int64_t BlocksOf(const FourBitProduct& p, const FourBitSchedule& s) {
  return CeilDiv(p.product.n, p.TileColumns() * s.tiles) * s.split;
}

namespace {

// Threads whose registers do not spill.
int MostThreads(const FourBitProduct& p, const FourBitSchedule& s) {
  if (p.weights.packed) {  // 96, 128 and, from 32 rows on, 255 registers
    return s.block_m == 8 ? 544 : s.block_m == 16 ? 416 : 256;
  }
  if (s.block_m == 32) return 640;  // 96 registers
  // 16 rows of which a warp loads two pieces: 72 registers.
  return s.block_m == 16 && s.RowPieces() > 4 ? 896 : 1024;
}

}  // namespace

absl::Status CheckSchedule(const FourBitProduct& p, const FourBitSchedule& s,
                           const DeviceModel& model) {
  const auto in = [](const char* name, int value, int least, int most) {
    return value >= least && value <= most
               ? absl::OkStatus()
               : FailedPrecondition(name, " is ", value, ", must be in [", least, ", ", most, "]");
  };
  const bool packed = p.weights.packed;
  const int most_threads = MostThreads(p, s);
  SINTER_RETURN_IF_ERROR(in("tiles", s.tiles, 1, packed ? 4 : 16));
  SINTER_RETURN_IF_ERROR(in("slices", s.slices, 1, 8));
  SINTER_RETURN_IF_ERROR(in("stages", s.stages, 2, 12));
  SINTER_RETURN_IF_ERROR(in("split", s.split, 1, 2));
  if (!packed && s.slices % 2 != 0) {
    return FailedPrecondition("slices are ", s.slices,
                              ", must be even: rows of boxes have 256 of K");
  }
  const bool rows = s.block_m == 8 || s.block_m == 16 || s.block_m == 32;
  if (!rows && !(packed && s.block_m == 64)) {
    return FailedPrecondition("block_m is ", s.block_m, ", must be 8, 16 or 32",
                              packed ? ", or 64" : "");
  }
  if (!packed && s.RowPieces() > 16) {
    return FailedPrecondition("slices are ", s.slices, ", must be at most ", 128 / s.block_m,
                              " of ", s.block_m, " rows");
  }
  SINTER_RETURN_IF_ERROR(in("threads", s.Threads(p), 1, most_threads));
  const int64_t blocks = BlocksOf(p, s);
  if (s.grid != blocks && !(packed && s.grid > 0 && s.grid % blocks == 0)) {
    return FailedPrecondition("grid is ", s.grid, ", must be ", packed ? "a multiple of " : "",
                              blocks);
  }
  if (s.split > CeilDiv(p.product.k, kSliceK * s.slices)) {
    return FailedPrecondition("split is ", s.split, ", must be at most the steps of K, ",
                              CeilDiv(p.product.k, kSliceK * s.slices));
  }
  const int64_t bytes = SharedMemoryBytes(p, s) + 16 * s.stages;  // and barriers
  if (bytes > model.shared_bytes_per_block) {
    return FailedPrecondition("shared memory is ", bytes, " bytes, must be at most ",
                              model.shared_bytes_per_block);
  }
  if (SumBytes(p, s) > s.stages * StageBytes(p, s)) {
    return FailedPrecondition("sums take ", SumBytes(p, s), " bytes, must be at most the stages', ",
                              s.stages * StageBytes(p, s));
  }
  return absl::OkStatus();
}

// Schedules and times.

namespace {

// Shares of the chip's rates, and times, fitted to an H200 (docs/lab/four-bit-weights.md).
struct Rates {
  double hbm_share;
  double issue_share;    // of the slots of warps that wait for stages
  double full_warps;     // fewer leave slots empty
  double fixed_us;       // after a launch: the first stage, and sums of slices
  double cluster_us;     // barriers of a cluster, and sums of its ranks
  double turn_us;        // a block's first stage and sums, of an SM's second block on
  double two_stages_us;  // while one is read, the other is on its way
};
constexpr Rates kByRows = {0.72, 0.55, 16, 3.8, 2.2, 0, 0};
constexpr Rates kPacked = {0.9, 1, 8, 3.2, 1.3, 3, 2};
constexpr double kIntakeBytesPerUs = 40e3;  // weights and rows, of an SM
constexpr double kSharedBytesPerClock = 128, kSharedShare = 0.62;

// Instructions of a warp for a tile and 128 of K. By rows: its loads, eight words of codes for each
// of two rows of a lane, and products with each 8 rows. Packed, for each 16 of K: a load of codes,
// four words of them and, with each 8 rows, half a load and four products, which take 5.7 clocks of
// a tensor core each. Each group has eight scales to prepare.
double StepInstructions(const FourBitProduct& p, int block_m) {
  const int of_word = UnpackInstructions(p.weights, p.product.weights.element);
  const double row_tiles = block_m / 8;
  if (p.weights.packed) {
    constexpr double kTilesOfK = 8, kScales = 36, kStep = 20, kProduct = 5.7;
    return kTilesOfK * (1 + 4 * of_word + (4 + 4 * kProduct + 0.5) * row_tiles) +
           kScales * kSliceK / static_cast<double>(p.weights.group) + kStep;
  }
  constexpr double kLoads = 40, kRowTile = 12;
  return kLoads + 8 * of_word + kRowTile * row_tiles;
}

// Bytes of shared memory that a warp reads for it.
double StepBytes(const FourBitProduct& p, int block_m) {
  return p.weights.packed ? 4096 + 256.0 * block_m : 1024 + 256.0 * block_m;
}

}  // namespace

absl::StatusOr<Prediction> PredictSchedule(const FourBitProduct& p, const FourBitSchedule& s,
                                           int64_t bucket, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSchedule(p, s, model));
  const int64_t rows = p.Rows(bucket);
  const int64_t row_blocks = s.grid / BlocksOf(p, s);
  if (rows > s.block_m * row_blocks) {
    return FailedPrecondition("block_m is ", s.block_m, ", must be at least the rows, ", rows,
                              ", of ", row_blocks, " blocks of rows");
  }
  Prediction time;
  const Rates& rates = p.weights.packed ? kPacked : kByRows;
  const int64_t blocks = s.grid;
  const int64_t at_once =
      std::max(1, s.split == 1 ? model.sm_count : model.ResidentBlocks(s.split));
  const double turns = static_cast<double>(CeilDiv(blocks, at_once));
  const int64_t of_step = int64_t{128} * s.slices;  // of K
  const double steps = static_cast<double>(CeilDiv(CeilDiv(p.product.k, of_step), s.split)) * turns;
  const double warp_steps = s.Warps(p) * steps;
  const double of_k = static_cast<double>(p.WeightBytes()) / static_cast<double>(p.product.n) /
                      static_cast<double>(p.product.k);  // bytes of a column
  const int64_t block_rows = std::min<int64_t>(rows, s.block_m);
  const double of_block =
      steps * static_cast<double>(of_step) *
      (of_k * static_cast<double>(p.TileColumns()) * s.tiles + 2 * static_cast<double>(block_rows));
  const int64_t row_bytes = p.product.k * SizeOf(p.product.rows.element);
  const int64_t out = rows * p.product.n * SizeOf(p.product.result);
  time.hbm_bytes = static_cast<double>(p.WeightBytes() + rows * row_bytes + out);
  time.hbm_us = time.hbm_bytes / (model.hbm_bytes_per_us * rates.hbm_share);
  time.l2_bytes = static_cast<double>(blocks / s.split * block_rows * row_bytes);
  time.intake_us = of_block / kIntakeBytesPerUs;
  time.shared_us = warp_steps * StepBytes(p, s.block_m) /
                   (kSharedBytesPerClock * kSharedShare * model.clock_mhz);
  // An SM issues instructions of four warps in a clock, of one each. A warp of packed weights and
  // 32 rows has so many independent products that four fill seven eighths of the slots.
  const double warps = s.Warps(p) + (p.weights.packed && s.block_m >= 32 ? 3 : 0);
  const double issue_us =
      warp_steps * StepInstructions(p, s.block_m) /
      (4 * rates.issue_share * std::min(1.0, warps / rates.full_warps) * model.clock_mhz);
  time.tensor_us = issue_us;
  time.fixed_us = model.launch_us + rates.fixed_us + (s.split > 1 ? rates.cluster_us : 0) +
                  (turns - 1) * rates.turn_us + (s.stages == 2 ? rates.two_stages_us : 0);
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
  const int64_t rows = p.Rows(bucket);
  if (!p.weights.packed && rows > kMostFourBitRows) return ranked;
  FourBitSchedule s;
  while (s.block_m < std::min<int64_t>(rows, 64)) s.block_m *= 2;
  const int64_t row_blocks = CeilDiv(rows, s.block_m);
  for (s.split = 1; s.split <= 2; ++s.split) {
    for (s.slices = 1; s.slices <= 8; ++s.slices) {
      for (s.tiles = 1; s.tiles <= 16; ++s.tiles) {
        s.grid = static_cast<int>(BlocksOf(p, s) * row_blocks);
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
