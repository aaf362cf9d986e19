// Legality of sequences. Every refusal names the product, the field, its value and the bound.
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status RefuseSequence(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// `vector`: 0, or elements in 16 bytes, of which it must be a multiple.
absl::Status CheckExtent(absl::string_view field, int64_t value, int vector) {
  if (value < 1 || value > kLargestExtent) {
    return RefuseSequence(field, " ", value, " is not in 1..", kLargestExtent);
  }
  if (vector == 0 || value % vector == 0) return absl::OkStatus();
  return RefuseSequence(field, " ", value, " is not a multiple of ", vector,
                        " (16-byte rows of tensor maps)");
}

absl::Status CheckElement(absl::string_view name, DType element, DType of_all) {
  const ElementRow* row = FindElement(element);
  if (row == nullptr || !row->planned) {
    return RefuseSequence("element ", static_cast<int>(element), " (", NameOf(element), ") of ",
                          name, " is not bf16 or f16");
  }
  if (element == of_all) return absl::OkStatus();
  return RefuseSequence("element of ", name, " is ", NameOf(element), ", of the rows ",
                        NameOf(of_all));
}

absl::Status CheckOperand(absl::string_view name, const Operand& operand, Layout layout,
                          Source source) {
  if (operand.layout != Layout::kOI && operand.layout != Layout::kIO) {
    return RefuseSequence("layout ", static_cast<int>(operand.layout), " of ", name,
                          " is not oi or io");
  }
  if (operand.layout != layout) {
    return RefuseSequence("layout of ", name, " is ", NameOf(operand.layout), ", must be ",
                          NameOf(layout));
  }
  if (!(operand.scales == Scales{})) {
    return RefuseSequence("scales of ", name, " are ", ToString(operand.scales), ", must be none");
  }
  if (operand.source == source) return absl::OkStatus();
  return RefuseSequence("source ", static_cast<int>(operand.source), " of ", name, " is not ",
                        static_cast<int>(source));
}

absl::Status CheckRowsOfWindow(const ProductSequence& sequence) {
  const PixelWindow& window = sequence.front().rows.window;
  SINTER_RETURN_IF_ERROR(CheckWindow(window));
  if (sequence.front().k != window.Columns()) {
    return RefuseSequence("k ", sequence.front().k, " is not that of the window, ",
                          window.Columns());
  }
  if (sequence.rows_per_m == window.RowsPerM()) return absl::OkStatus();
  return RefuseSequence("rows_per_m ", sequence.rows_per_m, " is not that of the window, ",
                        window.RowsPerM());
}

absl::Status CheckProduct(const ProductSequence& sequence, int i) {
  const MatrixProduct& p = sequence[i];
  const DType element = sequence.element();
  SINTER_RETURN_IF_ERROR(CheckElement("rows", p.rows.element, element));
  SINTER_RETURN_IF_ERROR(CheckElement("weights", p.weights.element, element));
  SINTER_RETURN_IF_ERROR(CheckElement("the result", p.result, element));
  const bool window = i == 0 && p.rows.source == Source::kWindow;
  const Source source = i > 0 ? Source::kProduct : window ? Source::kWindow : Source::kBuffer;
  SINTER_RETURN_IF_ERROR(CheckOperand("rows", p.rows, Layout::kOI, source));
  const Layout layout = i == 0 ? p.weights.layout : sequence.layout();
  SINTER_RETURN_IF_ERROR(CheckOperand("weights", p.weights, layout, Source::kBuffer));
  if (window) SINTER_RETURN_IF_ERROR(CheckRowsOfWindow(sequence));
  SINTER_RETURN_IF_ERROR(CheckExtent("k", p.k, ElementOf(p.weights.element).vector));
  const bool io = p.weights.layout == Layout::kIO;
  SINTER_RETURN_IF_ERROR(CheckExtent("n", p.n, io ? ElementOf(p.weights.element).vector : 0));
  if (i > 0 && p.k != sequence[i - 1].n) {
    return RefuseSequence("k ", p.k, " is not the n ", sequence[i - 1].n, " of the product before");
  }
  return CheckEpilogue(p.epilogue, element, p.pair);
}

}  // namespace

absl::Status CheckSequence(const ProductSequence& s) {
  if (s.size() < 1 || s.size() > kMaxKernelProducts) {
    return RefuseSequence("products: ", s.size(), " are not 1 to ", kMaxKernelProducts);
  }
  if (s.m < 1 || s.m > kLargestBucket) {
    return RefuseSequence("products: m ", s.m, " is not in 1..", kLargestBucket);
  }
  if (s.rows_per_m < 1 || s.rows_per_m > kMostRows / s.m) {
    return RefuseSequence("products: rows_per_m ", s.rows_per_m, " is not in 1..", kMostRows / s.m,
                          " at m ", s.m);
  }
  for (int i = 0; i < s.size(); ++i) {
    const absl::Status status = CheckProduct(s, i);
    if (status.ok()) continue;
    return s.size() == 1 ? status : RefuseSequence("product ", i + 1, ": ", status.message());
  }
  if (s.size() < 2 || CanPair(s, 0)) return absl::OkStatus();
  return RefuseSequence("products: the first has a residual, or the second is a pair or activated");
}

}  // namespace sinter
