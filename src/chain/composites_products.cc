// Whole chains of any number of products.
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/composites.h"

namespace sinter {
namespace {

// Adds product after product, each with its own inputs.
class ProductsBuilder {
 public:
  explicit ProductsBuilder(const ProductsSpec& spec) : spec_(spec), columns_(spec.k) {}

  absl::StatusOr<Chain> Make() {
    SINTER_ASSIGN_OR_RETURN(
        ValueId x, b_.Input({spec_.dtype, {spec_.m, Dim::Constant(spec_.k)}}, {false, {}, "a"}));
    for (const ProductSpec& product : spec_.products) {
      SINTER_ASSIGN_OR_RETURN(x, Add(product, x));
      columns_ = product.n;
      ++number_;
    }
    SINTER_ASSIGN_OR_RETURN(x, b_.Cast(x, spec_.dtype));
    SINTER_RETURN_IF_ERROR(b_.Output(x));
    return b_.Finish();
  }

 private:
  absl::StatusOr<ValueId> Constant(absl::string_view name, std::vector<Dim> dims) {
    return b_.Input({spec_.dtype, std::move(dims)}, {true, {}, absl::StrCat(name, number_)});
  }
  absl::StatusOr<ValueId> Weight(absl::string_view name, int64_t n) {
    const Dim in = Dim::Constant(columns_), out = Dim::Constant(n);
    if (spec_.layout == Layout::kOI) return Constant(name, {out, in});
    return Constant(name, {in, out});
  }
  absl::StatusOr<ValueId> Bias(absl::string_view name, const ProductSpec& product) {
    if (!product.bias) return kNoValue;
    return Constant(name, {Dim::Constant(product.n)});
  }

  absl::StatusOr<ValueId> Add(const ProductSpec& p, ValueId x) {
    if (!p.gated) {
      SINTER_ASSIGN_OR_RETURN(const ValueId w, Weight("w", p.n));
      SINTER_ASSIGN_OR_RETURN(const ValueId bias, Bias("bias", p));
      return AddLinear(b_, x, w, bias, spec_.layout, p.act);
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId w_gate, Weight("w_gate", p.n));
    SINTER_ASSIGN_OR_RETURN(const ValueId w_up, Weight("w_up", p.n));
    SINTER_ASSIGN_OR_RETURN(const ValueId bias_gate, Bias("bias_gate", p));
    SINTER_ASSIGN_OR_RETURN(const ValueId bias_up, Bias("bias_up", p));
    SINTER_ASSIGN_OR_RETURN(const ValueId gate,
                            AddLinear(b_, x, w_gate, bias_gate, spec_.layout, p.act));
    SINTER_ASSIGN_OR_RETURN(const ValueId up, AddLinear(b_, x, w_up, bias_up, spec_.layout));
    return b_.Binary(BinaryKind::kMul, gate, up);
  }

  const ProductsSpec& spec_;
  ChainBuilder b_;
  int64_t columns_;  // of x
  int number_ = 1;   // of the product that is added
};

}  // namespace

absl::StatusOr<Chain> MakeProductsChain(const ProductsSpec& spec) {
  if (spec.products.empty()) return absl::InvalidArgumentError("there is no product");
  return ProductsBuilder(spec).Make();
}

}  // namespace sinter
