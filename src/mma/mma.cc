#include "src/mma/mma.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/arch.h"
#include "src/base/format.h"
#include "src/base/numbers.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr uint8_t kProductVersion = 1;
constexpr int64_t kMostStride = int64_t{1} << 40;
constexpr int kRowBytes =
    128;  // of K that a slice has of a stage, src/device/tile/operand_tile.cuh
constexpr int kMostSums = 128;     // of a thread; more leave no registers for operands
constexpr int kMostMadeSums = 64;  // where mma.sync of e4m3 is made of f16's, which takes registers

absl::Status Lost(absl::string_view what) { return DataLoss("product by mma.sync: ", what); }

// The other operand's scales and layout are CheckSequence's.
absl::Status CheckScales(absl::string_view name, const Scales& scales) {
  if (scales.kind != ScaleKind::kBlock) return absl::OkStatus();
  return InvalidField(absl::StrCat("scales of ", name), ToString(scales),
                      "none, tensor or vector on chips without wgmma",
                      ": dequantise, or scale whole rows and columns");
}

absl::Status CheckStride(const char* name, int64_t stride, int64_t least, int64_t vector) {
  if (stride >= least && stride <= kMostStride && stride % vector == 0) return absl::OkStatus();
  return InvalidField(absl::StrCat("stride of ", name), stride,
                      absl::StrCat("a multiple of ", vector, " from ", least, " to 2^40"));
}

}  // namespace

std::string MmaProduct::ToString() const {
  std::string text = ProductSequence{0, 1, {product}}.ToString();
  if (!of_m) absl::StrAppend(&text, " rows=", rows);
  return text;
}

void MmaProduct::Write(ByteWriter& w) const {
  const std::string bytes = ProductSequence{0, 1, {product}}.Canonical();
  w(kProductVersion, bytes, rows, of_m, row_stride, weight_stride, residual_stride, out_stride);
}

absl::StatusOr<MmaProduct> MmaProduct::Read(ByteReader& r) {
  if (r.U8() != kProductVersion) return Lost("version");
  MmaProduct p;
  const std::string bytes(r.Bytes());
  r(p.rows, p.of_m, p.row_stride, p.weight_stride, p.residual_stride, p.out_stride);
  if (!r.ok()) return Lost("too short");
  SINTER_ASSIGN_OR_RETURN(const ProductSequence sequence, ProductSequence::FromCanonical(bytes));
  if (sequence.size() != 1 || p.rows < 0 || p.rows > kMostRows) return Lost("fields");
  p.product = sequence[0];
  if (!CheckMmaProduct(p).ok()) return Lost("fields");
  return p;
}

std::vector<MmaOperand> OperandsOf(const MmaProduct& p) {
  const MatrixProduct& product = p.product;
  const int width = product.Width();
  const EpilogueProgram& program = product.epilogue.program;
  std::vector<MmaOperand> list;
  list.push_back({MmaOperand::kRows, 0, product.rows.element, 0, product.k, p.row_stride});
  for (int i = 0; i < width; ++i) {
    const auto [rows, columns] =
        p.along_k() ? std::make_pair(product.n, product.k) : std::make_pair(product.k, product.n);
    list.push_back(
        {MmaOperand::kWeights, i, product.weights.element, rows, columns, p.weight_stride});
  }
  if (const Scales& scales = product.rows.scales; scales.kind != ScaleKind::kNone) {
    const bool one = scales.kind == ScaleKind::kTensor;
    const int64_t stride = one ? 0 : std::max<int64_t>(1, scales.row_stride);
    list.push_back({MmaOperand::kRowScale, 0, scales.element, one ? 1 : 0, 1, stride});
  }
  if (const Scales& scales = product.weights.scales; scales.kind != ScaleKind::kNone) {
    const int64_t columns = scales.kind == ScaleKind::kTensor ? 1 : product.n;
    for (int i = 0; i < width; ++i) {
      list.push_back({MmaOperand::kWeightScale, i, scales.element, 1, columns, 0,
                      std::max<int64_t>(1, scales.row_stride)});
    }
  }
  for (const int input : program.OperandInputs()) {
    MmaOperand leaf{MmaOperand::kLeaf, input, program.TypeOf(input), 1, 1, 0};
    const LeafKind kind = program.leaves[static_cast<size_t>(input)];
    if (kind == LeafKind::kMatrix || kind == LeafKind::kRow) leaf.rows = 0;
    if (kind == LeafKind::kMatrix || kind == LeafKind::kColumn) leaf.columns = product.n;
    leaf.row_stride = kind == LeafKind::kMatrix ? p.residual_stride : kind == LeafKind::kRow;
    list.push_back(leaf);
  }
  list.push_back({MmaOperand::kResult, 0, product.result, 0, product.n, p.out_stride});
  return list;
}

absl::Status CheckMmaProduct(const MmaProduct& p) {
  const MatrixProduct& product = p.product;
  if (product.HasTransposedRows() || product.k_is_m) {
    return Invalid("rows are transposed, must be [rows, k] on chips without wgmma: transpose them");
  }
  if (product.rows.source != Source::kBuffer) {
    return Invalid("rows are windows of pixels, must be a matrix on chips without wgmma");
  }
  SINTER_RETURN_IF_ERROR(CheckScales("rows", product.rows.scales));
  SINTER_RETURN_IF_ERROR(CheckScales("weights", product.weights.scales));
  const ProductEpilogue& epilogue = product.epilogue;
  if (epilogue.norm.has_value() || epilogue.quantize.has_value() || product.AuxResults() > 0) {
    return Invalid(
        "an epilogue with a norm, a quantiser or auxiliary results is left to other "
        "kernels on chips without wgmma");
  }
  const int64_t vector = ElementOf(product.rows.element).vector;
  const int64_t of_line = p.along_k() ? product.k : product.n;
  if (of_line % vector != 0 || product.k % vector != 0) {
    return InvalidField(p.along_k() ? "k" : "n and k", absl::StrCat(of_line, ", ", product.k),
                        absl::StrCat("a multiple of ", vector));
  }
  SINTER_RETURN_IF_ERROR(CheckStride("rows", p.row_stride, product.k, vector));
  SINTER_RETURN_IF_ERROR(CheckStride("weights", p.weight_stride, of_line, vector));
  SINTER_RETURN_IF_ERROR(CheckStride("the result", p.out_stride, product.n, 1));
  return CheckStride("the residual", p.residual_stride, 0, 1);
}

std::string MmaSchedule::ToString(bool with_grid) const {
  std::string text = absl::StrCat("bm", block_m, " bn", block_n, " wm", warp_m, " wn", warp_n,
                                  " slices", slices, " st", stages);
  if (with_grid) absl::StrAppend(&text, " grid", grid);
  return text;
}

absl::StatusOr<MmaSchedule> MmaSchedule::Read(ByteReader& r) {
  MmaSchedule s;
  r(s);
  if (!r.ok()) return Lost("schedule");
  return s;
}

namespace {

int64_t StageBytes(const MmaProduct& p, const MmaSchedule& s) {
  return int64_t{kRowBytes} * s.slices * (s.block_m + p.product.Width() * s.block_n);
}

int SumsOf(const MmaProduct& p, const MmaSchedule& s) {
  const int sums = p.product.Width() * s.warp_m * s.warp_n / 32;
  return ElementOf(p.product.rows.element).promoted ? 2 * sums : sums;
}

absl::Status CheckPower(const char* name, int value, int least, int most) {
  for (int power = least; power <= most; power *= 2) {
    if (value == power) return absl::OkStatus();
  }
  return FailedPrecondition(name, " is ", value, ", must be a power of two in [", least, ", ", most,
                            "]");
}

}  // namespace

int64_t BlocksOf(const MmaProduct& p, const MmaSchedule& s) {
  return CeilDiv(p.rows, s.block_m) * CeilDiv(p.product.n, s.block_n);
}

int64_t SharedMemoryBytes(const MmaProduct& p, const MmaSchedule& s) {
  return s.stages * StageBytes(p, s);
}

int RegistersOf(const MmaProduct& p, const MmaSchedule& s) {
  constexpr int kOthers = 56;  // addresses, loops
  const int fragments = (s.warp_m + p.product.Width() * s.warp_n) / 4;
  return SumsOf(p, s) + 2 * fragments + kOthers;
}

absl::Status CheckSchedule(const MmaProduct& p, const MmaSchedule& s, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(model.arch));
  if (p.product.rows.element == DType::kE4M3 && features.capability < kFirstE4M3) {
    return FailedPrecondition("rows are e4m3, which chips multiply from sm_", kFirstE4M3,
                              " on, device model ", model.name, " is ", model.arch);
  }
  SINTER_RETURN_IF_ERROR(CheckPower("block_m", s.block_m, 16, 256));
  SINTER_RETURN_IF_ERROR(CheckPower("block_n", s.block_n, 16, 256));
  SINTER_RETURN_IF_ERROR(CheckPower("warp_m", s.warp_m, 16, std::min(64, s.block_m)));
  SINTER_RETURN_IF_ERROR(CheckPower("warp_n", s.warp_n, 16, std::min(64, s.block_n)));
  SINTER_RETURN_IF_ERROR(CheckPower("slices", s.slices, 1, 8));
  SINTER_RETURN_IF_ERROR(CheckPower("threads", s.Threads(), 32, 256));
  if (s.stages < 2 || s.stages > 8) {
    return FailedPrecondition("stages are ", s.stages, ", must be in [2, 8]");
  }
  const bool made = ElementOf(p.product.rows.element).promoted && features.capability >= 90 &&
                    features.capability < 120;
  const int most_sums = made ? kMostMadeSums : kMostSums;
  if (SumsOf(p, s) > most_sums) {
    return FailedPrecondition("sums of a thread are ", SumsOf(p, s), ", must be at most ",
                              most_sums);
  }
  if (SharedMemoryBytes(p, s) > model.shared_bytes_per_block) {
    return FailedPrecondition("shared memory is ", SharedMemoryBytes(p, s),
                              " bytes, must be at most ", model.shared_bytes_per_block);
  }
  constexpr int kPad = 8;
  const int64_t sums = int64_t{4} * p.product.Width() * s.slices * s.block_m * (s.block_n + kPad);
  if (sums > SharedMemoryBytes(p, s)) {
    return FailedPrecondition("sums take ", sums, " bytes, must be at most the stages', ",
                              SharedMemoryBytes(p, s));
  }
  if (s.grid == BlocksOf(p, s)) return absl::OkStatus();
  return FailedPrecondition("grid is ", s.grid, ", must be ", BlocksOf(p, s));
}

}  // namespace sinter
