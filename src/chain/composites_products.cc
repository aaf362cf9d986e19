// Convolutions, and whole chains of any number of products.
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

// Adds layer after layer, each with its own inputs.
class ConvBuilder {
 public:
  explicit ConvBuilder(const ConvSpec& spec) : spec_(spec) {}

  absl::StatusOr<Chain> Make() {
    const auto extent = [](int64_t v) { return Dim::Constant(v); };
    SINTER_ASSIGN_OR_RETURN(
        ValueId x,
        b_.Input({spec_.dtype,
                  {spec_.batch, extent(spec_.height), extent(spec_.width), extent(spec_.channels)}},
                 {false, {}, "x"}));
    for (const ConvLayer& layer : spec_.layers) {
      SINTER_ASSIGN_OR_RETURN(x, Add(layer, x));
      ++number_;
    }
    SINTER_ASSIGN_OR_RETURN(x, b_.Cast(x, spec_.dtype));
    SINTER_RETURN_IF_ERROR(b_.Output(x));
    return b_.Finish();
  }

 private:
  absl::StatusOr<ValueId> Constant(absl::string_view name, const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (int64_t v : extents) dims.push_back(Dim::Constant(v));
    return b_.Input({spec_.dtype, dims}, {true, {}, absl::StrCat(name, number_)});
  }

  absl::StatusOr<ValueId> Filter(const ConvLayer& layer, int64_t in) {
    const auto [height, width] = layer.taps;
    if (spec_.filter == FilterLayout::kOHWI) return Constant("w", {layer.out, height, width, in});
    return Constant("w", {height, width, in, layer.out});
  }

  // y with a number of each channel, spread over the pixels.
  absl::StatusOr<ValueId> PerChannel(BinaryKind kind, absl::string_view name, int64_t out,
                                     ValueId y) {
    SINTER_ASSIGN_OR_RETURN(ValueId v, Constant(name, {out}));
    SINTER_ASSIGN_OR_RETURN(v, Widen(v));
    const std::vector<Dim> dims = b_.TypeOf(y).dims;
    SINTER_ASSIGN_OR_RETURN(v, b_.Broadcast(v, dims));
    return b_.Binary(kind, y, v);
  }

  absl::StatusOr<ValueId> Widen(ValueId v) {
    if (spec_.dtype == DType::kF32) return v;
    return b_.Cast(v, DType::kF32);
  }

  absl::StatusOr<ValueId> AddResidual(ValueId y) {
    const std::vector<Dim> dims = b_.TypeOf(y).dims;
    SINTER_ASSIGN_OR_RETURN(ValueId r, b_.Input({spec_.dtype, dims}, {false, {}, "r"}));
    SINTER_ASSIGN_OR_RETURN(r, Widen(r));
    return b_.Binary(BinaryKind::kAdd, y, r);
  }

  absl::StatusOr<ValueId> Add(const ConvLayer& layer, ValueId x) {
    Conv2d conv = layer.conv;
    conv.filter = spec_.filter;
    SINTER_ASSIGN_OR_RETURN(const ValueId w, Filter(layer, b_.TypeOf(x).dims.back().value));
    SINTER_ASSIGN_OR_RETURN(ValueId y, b_.Convolve(x, w, conv));
    if (layer.scale) {
      SINTER_ASSIGN_OR_RETURN(y, PerChannel(BinaryKind::kMul, "s", layer.out, y));
    }
    if (layer.bias) {
      SINTER_ASSIGN_OR_RETURN(y, PerChannel(BinaryKind::kAdd, "bias", layer.out, y));
    }
    if (layer.residual == ConvResidual::kBeforeActivation) {
      SINTER_ASSIGN_OR_RETURN(y, AddResidual(y));
    }
    SINTER_ASSIGN_OR_RETURN(y, AddActivation(b_, layer.act, y));
    if (layer.residual != ConvResidual::kBehindActivation) return y;
    return AddResidual(y);
  }

  const ConvSpec& spec_;
  ChainBuilder b_;
  int number_ = 1;  // of the layer that is added
};

}  // namespace

absl::StatusOr<Chain> MakeProductsChain(const ProductsSpec& spec) {
  if (spec.products.empty()) return absl::InvalidArgumentError("there is no product");
  return ProductsBuilder(spec).Make();
}

std::array<int64_t, 2> SamePads(int64_t taps, int64_t dilation) {
  const int64_t total = dilation * (taps - 1);
  return {total / 2, total - total / 2};
}

absl::StatusOr<Chain> MakeConvChain(const ConvSpec& spec) {
  if (spec.layers.empty()) return absl::InvalidArgumentError("there is no convolution");
  return ConvBuilder(spec).Make();
}

}  // namespace sinter
