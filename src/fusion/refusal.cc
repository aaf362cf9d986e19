#include "src/fusion/refusal.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/ceil_div.h"
#include "src/chain/value_name.h"
#include "src/fusion/stitch/op_class.h"

namespace sinter {
namespace {

constexpr size_t kMostRefusedProducts = 3;  // listed in an error
constexpr int kRowAlignment = 16;           // bytes: tensor maps need it of rows

bool IsMultiplied(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 || IsCode(dtype);
}

bool IsProduct(const Op& op) {
  return op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
         op.kind == OpKind::kConv2d;
}

// One product and where its two operands come from.
class Product {
 public:
  Product(const Chain& chain, ValueId id)
      : chain_(chain),
        op_(chain.op(id)),
        head_(absl::StrCat("op ", id, " (", NameOf(op_), " of ")),
        rows_(Source(op_.operands[0])),
        weights_(Source(op_.operands[1])) {
    absl::StrAppend(&head_, NameOfValue(chain, rows_), " and ", NameOfValue(chain, weights_),
                    "): ");
  }

  const std::string& head() const { return head_; }

  // What is the matter with it, and the way out; "" where that is not one of the usual things.
  std::string Trouble() const {
    for (std::string (Product::*rule)() const :
         {&Product::OfTypes, &Product::OfM, &Product::OfRows}) {
      std::string trouble = (this->*rule)();
      if (!trouble.empty()) return trouble;
    }
    return "";
  }

 private:
  // What is multiplied, below views and casts that lose nothing.
  ValueId Source(ValueId id) const {
    while (ClassOf(chain_, id) == OpClass::kView) id = chain_.op(id).operands[0];
    return id;
  }
  const TensorType& TypeOf(ValueId id) const { return chain_.op(id).type; }
  bool IsInput(ValueId id) const { return chain_.op(id).kind == OpKind::kInput; }
  std::string Typed(ValueId id) const {
    return absl::StrCat(NameOfValue(chain_, id), " is ", sinter::ToString(TypeOf(id)));
  }

  std::string OfTypes() const {
    const DType rows = TypeOf(rows_).dtype, weights = TypeOf(weights_).dtype;
    constexpr char kTypes[] = ", kernels multiply bf16, f16, e4m3 and s8: ";
    if (!IsMultiplied(weights)) {
      if (rows == weights && IsInput(rows_)) {
        return absl::StrCat(NameOfValue(chain_, rows_), " and ", NameOfValue(chain_, weights_),
                            " are ", NameOf(weights), kTypes, "give both as bf16, or cast ",
                            NameOfValue(chain_, rows_), " and give ", NameOfValue(chain_, weights_),
                            " as bf16");
      }
      return absl::StrCat(Typed(weights_), kTypes, "give it as ",
                          NameOf(IsMultiplied(rows) ? rows : DType::kBF16));
    }
    const bool own = IsInput(rows_) || TypeOf(rows_).dtype != DType::kF32;
    if (rows == weights || !own) return "";
    return absl::StrCat(Typed(rows_), ", ", Typed(weights_),
                        ", a product's operands have one dtype: cast ", NameOfValue(chain_, rows_),
                        " to ", NameOf(weights), IsCode(weights) ? ", by quantize" : "");
  }

  std::string OfM() const {
    const std::vector<Dim>& dims = TypeOf(rows_).dims;
    if (SumsOverM()) return "";
    for (const Dim& dim : TypeOf(weights_).dims) {
      if (!dim.symbolic) continue;
      return absl::StrCat(Typed(weights_),
                          ", M may only count rows of the first operand, or what both operands "
                          "have first and the product sums over, by transpose_a: give the extent "
                          "as a constant, in a chain for each");
    }
    for (size_t i = 1; i < dims.size(); ++i) {
      if (!dims[i].symbolic) continue;
      return absl::StrCat(Typed(rows_), ", M must be the first dimension: ",
                          i + 1 < dims.size()
                              ? "give it with that dimension first, or all leading ones as M"
                              : "a product sums over M of [M, rows] and [M, n], by transpose_a");
    }
    return "";
  }

  // Whether it sums over M as kernels do: both matrices lie with M first.
  bool SumsOverM() const {
    const TensorType &a = TypeOf(op_.operands[0]), &b = TypeOf(op_.operands[1]);
    return op_.kind == OpKind::kMatmul && op_.transpose_a && !op_.transpose_b && a.rank() == 2 &&
           b.rank() == 2 && a.dims[0].symbolic && !a.dims[1].symbolic;
  }

  std::string OfRows() const {
    for (const ValueId id : {rows_, weights_}) {
      const Op& op = chain_.op(id);
      const std::vector<Dim>& dims = op.type.dims;
      if (op.kind != OpKind::kInput || dims.size() < 2) continue;
      const size_t last = dims.size() - 1;
      if (op.strides[last] != Stride{1, 0}) {
        return absl::StrCat(Typed(id), " with strides ", ToString(absl::MakeConstSpan(op.strides)),
                            ", kernels read rows without gaps: copy it");
      }
      const int64_t vector = kRowAlignment / SizeOf(op.type.dtype);
      const int64_t stride = op.strides[last - 1].value;
      if (stride % vector == 0) continue;
      const bool whole = stride == dims[last].value;
      return absl::StrCat(Typed(id), ", its rows are ", stride, " elements apart, which must be a ",
                          "multiple of ", vector, " (", kRowAlignment, " bytes): pad ",
                          op_.kind == OpKind::kConv2d ? "the channels" : "its last dimension",
                          whole ? "" : " in memory", " to ", RoundUp(stride, vector));
    }
    return "";
  }

  const Chain& chain_;
  const Op& op_;
  std::string head_;
  const ValueId rows_, weights_;
};

// The products that may be why: those that are in no run, or all where each is in one.
std::vector<ValueId> Suspects(const Chain& chain, const ProductRuns& products) {
  std::vector<ValueId> suspects;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (!IsProduct(chain.op(id)) || ClassOf(chain, id) != OpClass::kProduct) continue;
    if (products.all || products.refused.count(id) > 0) suspects.push_back(id);
  }
  return suspects;
}

}  // namespace

absl::Status Refusal(const Chain& chain, const ProductRuns& products, const absl::Status& why) {
  std::vector<std::string> told;
  size_t more = 0;
  for (const ValueId id : Suspects(chain, products)) {
    const Product product(chain, id);
    std::string trouble = product.Trouble();
    const auto refused = products.refused.find(id);
    if (trouble.empty() && refused != products.refused.end()) trouble = refused->second;
    if (trouble.empty()) continue;
    if (told.size() < kMostRefusedProducts) {
      told.push_back(absl::StrCat(product.head(), trouble));
    } else {
      ++more;
    }
  }
  if (told.empty()) return why;
  if (more > 0) told.push_back(absl::StrCat("and ", more, " more"));
  return absl::Status(why.code(), absl::StrJoin(told, "; "));
}

}  // namespace sinter
