// Convolutions, and whole chains of any number of products.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/chain/whole_chain.h"

namespace sinter {
namespace {

// Adds layer after layer, each with its own inputs.
class ConvMaker {
 public:
  explicit ConvMaker(const ConvSpec& spec) : spec_(spec), c_(spec.dtype) {}

  absl::StatusOr<Chain> Make() {
    const auto extent = [](int64_t v) { return Dim::Constant(v); };
    ValueId x = c_.Input(
        "x", {spec_.dtype,
              {spec_.batch, extent(spec_.height), extent(spec_.width), extent(spec_.channels)}});
    int64_t channels = spec_.channels;
    for (const ConvLayer& layer : spec_.layers) {
      x = Add(layer, x, channels);
      channels = layer.out;
      ++number_;
    }
    return c_.Finish(x);
  }

 private:
  ValueId Constant(absl::string_view name, const std::vector<int64_t>& extents) {
    return c_.Constant(absl::StrCat(name, number_), extents);
  }

  ValueId Filter(const ConvLayer& layer, int64_t in, int64_t out) {
    const auto [height, width] = layer.taps;
    if (spec_.filter == FilterLayout::kOHWI) return Constant("w", {out, height, width, in});
    return Constant("w", {height, width, in, out});
  }

  // y with a number of each channel, spread over the pixels.
  ValueId PerChannel(BinaryKind kind, absl::string_view name, int64_t out, ValueId y) {
    const ValueId v = c_.Widen(Constant(name, {out}));
    return c_.Binary(kind, y, c_.Spread(v, y));
  }

  ValueId AddResidual(ValueId y) {
    if (!c_.b().Contains(y)) return -1;
    const ValueId r = c_.Input("r", {spec_.dtype, c_.b().TypeOf(y).dims});
    return c_.Binary(BinaryKind::kAdd, y, c_.Widen(r));
  }

  ValueId Add(const ConvLayer& layer, ValueId x, int64_t channels) {
    Conv2d conv = layer.conv;
    conv.filter = spec_.filter;
    const int64_t out = layer.out, in = std::max<int64_t>(1, channels / layer.groups);
    const ValueId w = Filter(layer, in, out);
    ValueId y = c_.Take(AddConv2d(c_.b(), x, w, conv, layer.groups));
    if (layer.scale) y = PerChannel(BinaryKind::kMul, "s", out, y);
    if (layer.bias) y = PerChannel(BinaryKind::kAdd, "bias", out, y);
    if (layer.residual == ConvResidual::kBeforeActivation) y = AddResidual(y);
    y = c_.Take(AddActivation(c_.b(), layer.act, y));
    return layer.residual == ConvResidual::kBehindActivation ? AddResidual(y) : y;
  }

  const ConvSpec& spec_;
  WholeChain c_;
  int number_ = 1;  // of the layer that is added
};

}  // namespace

absl::StatusOr<Chain> MakeProductsChain(const ProductsSpec& spec) {
  if (spec.products.empty()) return absl::InvalidArgumentError("there is no product");
  WholeChain c(spec.dtype, spec.m);
  ValueId x = c.Rows("a", spec.k);
  int64_t in = spec.k;
  for (size_t i = 0; i < spec.products.size(); ++i) {
    const ProductSpec& product = spec.products[i];
    const int64_t out = product.n;
    const auto weight = [&](absl::string_view name) {
      const std::vector<int64_t> oi = {out, in}, io = {in, out};
      return c.Constant(absl::StrCat(name, i + 1), spec.layout == Layout::kOI ? oi : io);
    };
    const auto bias = [&](absl::string_view name, bool wanted) {
      return c.Constant(absl::StrCat(name, i + 1), {out}, wanted);
    };
    const ValueId w = weight(product.gated ? "w_gate" : "w");
    const ValueId w_up = product.gated ? weight("w_up") : kNoValue;
    const ValueId b = bias(product.gated ? "bias_gate" : "bias", product.bias);
    const ValueId b_up = bias("bias_up", product.gated && product.bias);
    const ValueId y = c.Take(AddLinear(c.b(), x, w, b, spec.layout, product.act));
    if (product.gated) {
      const ValueId up = c.Take(AddLinear(c.b(), x, w_up, b_up, spec.layout));
      x = c.Binary(BinaryKind::kMul, y, up);
    } else {
      x = y;
    }
    in = out;
  }
  return c.Finish(x);
}

std::array<int64_t, 2> SamePads(int64_t taps, int64_t dilation) {
  const int64_t total = dilation * (taps - 1);
  return {total / 2, total - total / 2};
}

absl::StatusOr<Chain> MakeConvChain(const ConvSpec& spec) {
  if (spec.layers.empty()) return absl::InvalidArgumentError("there is no convolution");
  return ConvMaker(spec).Make();
}

}  // namespace sinter
