// Legality of sequences. Every refusal names the product, the field, its value and the bound.
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr int64_t kCodesOfRow = 16;   // rows of codes are whole 16 bytes
constexpr int64_t kGroupColumns = 8;  // of a group's, as swizzle patterns have 8 rows

// `vector`: 0, or the elements in 16 bytes, of which `value` must be a multiple.
absl::Status CheckExtent(absl::string_view field, int64_t value, int vector) {
  if (value < 1 || value > kLargestExtent) {
    return Invalid(field, " ", value, " is not in 1..", kLargestExtent);
  }
  if (vector == 0 || value % vector == 0) return absl::OkStatus();
  return Invalid(field, " ", value, " is not a multiple of ", vector,
                 " (16-byte rows of tensor maps): pad it to ",
                 (value + vector - 1) / vector * vector);
}

absl::Status CheckElement(absl::string_view name, DType element, DType of_all) {
  const ElementRow* row = FindElement(element);
  if (row == nullptr || !row->planned) {
    return Invalid("element ", static_cast<int>(element), " (", NameOf(element), ") of ", name,
                   " is not bf16, f16, e4m3 or s8");
  }
  if (element == of_all) return absl::OkStatus();
  return Invalid("element of ", name, " is ", NameOf(element), ", of the rows ", NameOf(of_all));
}

// A result of operands of 8 bits has 16 bits or 32, as has that of a lone product of 16 bits.
absl::Status CheckResult(const ProductSequence& sequence, DType result, DType of_all) {
  if (result == DType::kF32 && !IsCode(of_all) && sequence.size() > 1) {
    return Invalid("element of the result is f32, products are ", sequence.size(), ": only one of ",
                   NameOf(of_all), " stores f32");
  }
  if (result == DType::kF32) return absl::OkStatus();
  if (!IsCode(of_all)) return CheckElement("the result", result, of_all);
  if (IsFloat(result) || result == DType::kE4M3) return absl::OkStatus();
  return Invalid("element of the result is ", NameOf(result), ", of ", NameOf(of_all),
                 " operands it must be f32, f16, bf16 or e4m3");
}

// Where they are strided: of a vector between rows, of blocks along K too. Only groups of the rows
// may lie M elements apart.
absl::Status CheckScaleStrides(absl::string_view name, const Scales& scales, bool of_rows) {
  const bool blocks = scales.kind == ScaleKind::kBlock;
  const auto fits = [](int64_t stride) { return stride >= 1 && stride <= kLargestScaleStride; };
  if (!scales.strided() && scales.group_stride == 0 && !scales.of_m) return absl::OkStatus();
  const bool takes = (blocks || scales.kind == ScaleKind::kVector) && fits(scales.row_stride);
  const bool groups = blocks ? fits(scales.group_stride) : scales.group_stride == 0;
  if (takes && groups && (!scales.of_m || (blocks && of_rows))) return absl::OkStatus();
  return Invalid("strides of scales of ", name, " are ", scales.row_stride, " and ",
                 scales.group_stride, scales.of_m ? " times M" : "", ", must be in 1..",
                 kLargestScaleStride, blocks ? "" : " and 0",
                 of_rows && blocks ? "" : ", without M");
}

// `weights`: the operand is weights, else rows.
absl::Status CheckScales(absl::string_view name, const Operand& operand, bool weights) {
  const int64_t blocks = weights ? kScaleBlock : 1;  // rows that share a scale of 128 of K
  const bool codes = IsCode(operand.element), of_blocks = ElementOf(operand.element).promoted;
  SINTER_RETURN_IF_ERROR(CheckScaleStrides(name, operand.scales, !weights));
  Scales scales = operand.scales;
  if (codes) {
    scales.row_stride = scales.group_stride = 0;
    scales.of_m = false;
  }
  const Scales of_element{ScaleKind::kVector, 0, 0, operand.element};
  if (scales == Scales{}) return absl::OkStatus();
  if (codes && scales == Scales{ScaleKind::kTensor, 0, 0}) return absl::OkStatus();
  if ((codes || weights) && scales == Scales{ScaleKind::kVector, 0, 0}) return absl::OkStatus();
  if (of_blocks && scales == Scales{ScaleKind::kBlock, blocks, kScaleBlock}) {
    return absl::OkStatus();
  }
  if (!codes && weights && scales == of_element) return absl::OkStatus();
  return Invalid("scales of ", name, " are ", ToString(scales), ", must be none",
                 of_blocks ? absl::StrCat(", tensor, vector or block ", blocks, "x", kScaleBlock)
                 : codes   ? ", tensor or vector"
                 : weights ? absl::StrCat(", vector or vector of ", NameOf(operand.element))
                           : "");
}

absl::Status CheckFast(const MatrixProduct& p) {
  if (p.accumulate == Accumulate::kPromoted) return absl::OkStatus();
  if (p.accumulate != Accumulate::kFast) {
    return Invalid("accumulate ", static_cast<int>(p.accumulate), " is not 0 or 1");
  }
  if (!ElementOf(p.rows.element).promoted) {
    return Invalid("accumulate is fast, must be promoted for ", NameOf(p.rows.element));
  }
  if (!p.HasBlockScales()) return absl::OkStatus();
  return Invalid("accumulate is fast, must be promoted with scales of blocks");
}

// Checks a product of operands of 8 bits.
absl::Status CheckCodes(const ProductSequence& sequence, const MatrixProduct& p) {
  if (!IsCode(p.rows.element)) return absl::OkStatus();
  SINTER_RETURN_IF_ERROR(CheckSumsOf(p.rows.element, Dim::Constant(p.k)));
  const absl::string_view element = NameOf(p.rows.element);
  if (sequence.size() > 1) {
    return Invalid("products: ", sequence.size(), " are not 1, of ", element, " operands");
  }
  if (p.rows.source == Source::kWindow) {
    return Invalid("source of rows is a window, of ", element, " operands");
  }
  if (p.weights.layout != Layout::kOI) {
    return Invalid("layout of weights is ", NameOf(p.weights.layout), ", must be oi for ", element,
                   ": wgmma reads them along k; transpose the weights");
  }
  if (p.HasBlockScales() && p.k % kScaleBlock != 0) {
    return Invalid("k ", p.k, " is not a multiple of ", kScaleBlock, ", with scales of blocks");
  }
  const int64_t columns = p.epilogue.has_groups() ? kScaleBlock : kCodesOfRow;
  if (p.epilogue.quantize.has_value() && p.n % columns != 0) {
    return Invalid("n ", p.n, " is not a multiple of ", columns, ", of results in codes");
  }
  if (p.rows.scales.kind != ScaleKind::kNone && p.epilogue.factor().has_value()) {
    return Invalid("factor and scales of the rows are both there");
  }
  return absl::OkStatus();
}

// Checks a product that computes its rows' norm: all of a row passes through one block's ring.
absl::Status CheckNorm(const ProductSequence& sequence, const MatrixProduct& p) {
  if (!p.epilogue.norm.has_value()) return absl::OkStatus();
  if (sequence.size() > 1) {
    return Invalid("products: ", sequence.size(), " are not 1, of a norm of the rows");
  }
  if (p.weights.scales.kind != ScaleKind::kNone) {
    return Invalid("norm and scales of the weights are both there");
  }
  if (p.rows.source == Source::kWindow || ElementOf(p.rows.element).bytes != 2) {
    return Invalid("norm is there, the rows are ", NameOf(p.rows.element),
                   p.rows.source == Source::kWindow ? " of a window" : "",
                   ", must be a matrix of bf16 or f16");
  }
  return absl::OkStatus();
}

// Checks rows that lie as columns, which wgmma reads from shared memory if they have 16 bits.
absl::Status CheckTransposed(const ProductSequence& sequence, const MatrixProduct& p) {
  if (p.k_is_m && (!p.HasTransposedRows() || p.weights.layout != Layout::kIO)) {
    return Invalid("k is M, of operands that are contiguous along k: transpose both");
  }
  if (!p.HasTransposedRows()) return absl::OkStatus();
  if (sequence.size() > 1) {
    return Invalid("products: ", sequence.size(), " are not 1, of transposed rows");
  }
  if (ElementOf(p.rows.element).bytes != 2 || p.rows.source != Source::kBuffer) {
    return Invalid("rows are transposed, must be a matrix in memory of bf16 or f16");
  }
  if (p.epilogue.norm.has_value()) return Invalid("norm is there, of transposed rows");
  return absl::OkStatus();
}

absl::Status CheckOperand(absl::string_view name, const Operand& operand, Layout layout,
                          Source source, bool weights) {
  if (operand.layout != Layout::kOI && operand.layout != Layout::kIO) {
    return Invalid("layout ", static_cast<int>(operand.layout), " of ", name, " is not oi or io");
  }
  if (operand.layout != layout) {
    return Invalid("layout of ", name, " is ", NameOf(operand.layout), ", must be ",
                   NameOf(layout));
  }
  SINTER_RETURN_IF_ERROR(CheckScales(name, operand, weights));
  if (operand.source == source) return absl::OkStatus();
  return Invalid("source ", static_cast<int>(operand.source), " of ", name, " is not ",
                 static_cast<int>(source));
}

// Checks a grouped convolution: boxes of weights have channels of one group, then zeros, which are
// adjacent only along K.
absl::Status CheckConvGroups(const ProductSequence& sequence) {
  const MatrixProduct& p = sequence.front();
  const int64_t groups = p.rows.window.conv.groups;
  if (sequence.size() > 1) {
    return Invalid("products: ", sequence.size(), " are not 1, of ", groups, " groups");
  }
  if (p.pair) return Invalid("product is a pair, of ", groups, " groups");
  if (p.weights.layout != Layout::kOI) {
    return Invalid("layout of weights is ", NameOf(p.weights.layout), ", must be oi of ", groups,
                   " groups: give the filter as OHWI");
  }
  if (p.n % (groups * kGroupColumns) == 0) return absl::OkStatus();
  return Invalid("n ", p.n, " is not a multiple of ", kGroupColumns, " in each of ", groups,
                 " groups");
}

absl::Status CheckRowsOfWindow(const ProductSequence& sequence) {
  const PixelWindow& window = sequence.front().rows.window;
  SINTER_RETURN_IF_ERROR(CheckWindow(window));
  if (window.grouped()) SINTER_RETURN_IF_ERROR(CheckConvGroups(sequence));
  if (sequence.front().k != window.Columns()) {
    return Invalid("k ", sequence.front().k, " is not the extent of the window, ",
                   window.Columns());
  }
  if (sequence.rows_per_m == window.RowsPerM()) return absl::OkStatus();
  return Invalid("rows_per_m ", sequence.rows_per_m, " is not the extent of the window, ",
                 window.RowsPerM());
}

// A thread has a number of its row, and terms of a column as the fields of ColumnTerms (device
// library).
absl::Status CheckVectors(const MatrixProduct& p) {
  if (!p.epilogue.program.written()) return absl::OkStatus();
  if (p.ReadsRow() && (p.epilogue.scaled() || p.rows.scales.kind != ScaleKind::kNone)) {
    return Invalid("program reads a number of each row, beside a scale of the rows");
  }
  const bool one = p.weights.scales.kind == ScaleKind::kTensor;
  const int terms = p.ColumnTerms() + (one ? p.Width() : 0);
  if (terms <= kMostColumnLeaves) return absl::OkStatus();
  return Invalid("scales, biases and a program's vectors of columns: ", terms, " are above ",
                 kMostColumnLeaves);
}

absl::Status CheckProduct(const ProductSequence& sequence, int i) {
  const MatrixProduct& p = sequence[i];
  const DType element = sequence.element();
  SINTER_RETURN_IF_ERROR(CheckElement("rows", p.rows.element, element));
  SINTER_RETURN_IF_ERROR(CheckElement("weights", p.weights.element, element));
  SINTER_RETURN_IF_ERROR(CheckResult(sequence, p.result, element));
  const bool window = i == 0 && p.rows.source == Source::kWindow;
  const Source source = i > 0 ? Source::kProduct : window ? Source::kWindow : Source::kBuffer;
  const Layout of_rows = i == 0 ? p.rows.layout : Layout::kOI;
  SINTER_RETURN_IF_ERROR(CheckOperand("rows", p.rows, of_rows, source, false));
  const Layout layout = i == 0 ? p.weights.layout : sequence.layout();
  SINTER_RETURN_IF_ERROR(CheckOperand("weights", p.weights, layout, Source::kBuffer, true));
  SINTER_RETURN_IF_ERROR(CheckCodes(sequence, p));
  SINTER_RETURN_IF_ERROR(CheckFast(p));
  SINTER_RETURN_IF_ERROR(CheckNorm(sequence, p));
  SINTER_RETURN_IF_ERROR(CheckTransposed(sequence, p));
  if (window) SINTER_RETURN_IF_ERROR(CheckRowsOfWindow(sequence));
  const bool io = p.weights.layout == Layout::kIO;
  const bool along_k = !io || !p.HasTransposedRows();  // whether rows of a matrix are
  SINTER_RETURN_IF_ERROR(CheckExtent("k", p.k, along_k ? ElementOf(p.weights.element).vector : 0));
  SINTER_RETURN_IF_ERROR(CheckExtent("n", p.n, io ? ElementOf(p.weights.element).vector : 0));
  if (i > 0 && p.k != sequence[i - 1].n) {
    return Invalid("k ", p.k, " is not the n ", sequence[i - 1].n, " of the product before");
  }
  SINTER_RETURN_IF_ERROR(CheckEpilogue(p.epilogue, element, p.result, p.pair));
  return CheckVectors(p);
}

}  // namespace

absl::Status CheckSequence(const ProductSequence& s) {
  if (s.size() < 1 || s.size() > kMaxKernelProducts) {
    return Invalid("products: ", s.size(), " are not 1 to ", kMaxKernelProducts);
  }
  if (s.m < 1 || s.m > kLargestBucket) {
    return Invalid("products: m ", s.m, " is not in 1..", kLargestBucket);
  }
  if (s.rows_per_m < 1 || s.rows_per_m > kMostRows / s.m) {
    return Invalid("products: rows_per_m ", s.rows_per_m, " is not in 1..", kMostRows / s.m,
                   " at m ", s.m);
  }
  for (int i = 0; i < s.size(); ++i) {
    const absl::Status status = CheckProduct(s, i);
    if (status.ok()) continue;
    return s.size() == 1 ? status : Invalid("product ", i + 1, ": ", status.message());
  }
  if (s.size() < 2 || CanPair(s, 0)) return absl::OkStatus();
  return Invalid("products: the first has a residual, or the second is a pair");
}

}  // namespace sinter
