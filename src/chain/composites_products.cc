// Convolutions, and whole chains of any number of products.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

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
  if (spec.products.empty()) return Invalid("there is no product");
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
  if (spec.layers.empty()) return Invalid("there is no convolution");
  return ConvMaker(spec).Make();
}

namespace {

// Whether `field` is a batch of matrices whose last but one or last axis is `extent`.
bool CheckMatrices(Expander& e, absl::string_view field, ValueId id, const TensorType& like,
                   absl::string_view what) {
  if (!e.CheckFloat(field, id)) return false;
  const TensorType& type = e.Type(id);
  if (type.rank() < 2) {
    e.Fail(InvalidField(field, ToString(type), what));
  } else if (type.dtype != like.dtype) {
    e.Fail(absl::StrCat(field, " is ", ToString(type), ", must have q's dtype, ",
                        NameOf(like.dtype), ": cast it"));
  }
  return e.ok();
}

void CheckEqual(Expander& e, absl::string_view field, const TensorType& type, size_t axis,
                absl::string_view of, const TensorType& other, size_t other_axis) {
  if (type.dims[axis] == other.dims[other_axis]) return;
  e.Fail(absl::StrCat(
      field, " is ", ToString(type), ", must have ", ToString(other.dims[other_axis]),
      axis + 1 == type.dims.size() ? " columns" : " rows", ": ", of, " is ", ToString(other)));
}

// A pred with the dims of `like`: false where a key comes after its row.
ValueId SeenKeys(Expander& e, ValueId like) {
  if (!e.ok()) return kNoValue;
  const std::vector<Dim>& dims = e.Type(like).dims;
  const std::vector<Dim> matrix(dims.end() - 2, dims.end());
  const ValueId row = e.Take(e.builder().Iota(matrix, 0, DType::kS32));
  if (!e.ok()) return kNoValue;
  const ValueId key = e.Take(e.builder().Iota(matrix, 1, DType::kS32));
  if (!e.ok()) return kNoValue;
  return e.Spread(e.Take(e.builder().Compare(CompareKind::kGe, row, key)), like);
}

// z where `seen`, else -infinity.
ValueId Where(Expander& e, ValueId seen, ValueId z) {
  const ValueId hidden = e.Spread(e.Scalar(-std::numeric_limits<double>::infinity()), z);
  return e.ok() ? e.Take(e.builder().Select(seen, z, hidden)) : kNoValue;
}

}  // namespace

absl::StatusOr<ValueId> AddAttention(ChainBuilder& b, ValueId q, ValueId k, ValueId v,
                                     const AttentionOptions& options) {
  Expander e(b, "attention");
  if (!e.CheckFloat("q", q)) return e.Finish(q);
  const TensorType q_type = e.Type(q);
  if (!CheckMatrices(e, "q", q, q_type, "[.., rows, d]") ||
      !CheckMatrices(e, "k", k, q_type, "[.., keys, d]") ||
      !CheckMatrices(e, "v", v, q_type, "[.., keys, e]")) {
    return e.Finish(q);
  }
  const TensorType k_type = e.Type(k), v_type = e.Type(v);
  CheckEqual(e, "k", k_type, k_type.dims.size() - 1, "q", q_type, q_type.dims.size() - 1);
  if (e.ok())
    CheckEqual(e, "v", v_type, v_type.dims.size() - 2, "k", k_type, k_type.dims.size() - 2);
  const Dim d = q_type.dims.back();
  if (e.ok() && options.scale == 0 && d.symbolic) {
    e.Fail("scale is 0, and the last dimension of q is M: give the scale");
  }
  double scale = options.scale;
  if (e.ok() && scale == 0) scale = 1 / std::sqrt(static_cast<double>(d.value));
  const float narrow = static_cast<float>(scale);
  if (e.ok() && (!std::isfinite(narrow) || narrow == 0)) {
    e.Fail(InvalidField("scale", scale, "finite and not 0 in f32"));
  }
  if (!e.ok()) return e.Finish(q);
  ValueId z = e.TakeAs("q times k", b.Matmul(q, k, false, true));
  z = e.Mul(e.Scalar(scale), z);
  if (options.bias != kNoValue && e.Check("bias", options.bias) &&
      e.Type(options.bias).dtype == DType::kPred) {
    e.Fail(InvalidField("bias", ToString(e.Type(options.bias)), "a number, which is added",
                        ": a pred is a mask"));
  }
  if (options.bias != kNoValue) z = e.Add(z, e.SpreadOperand("bias", options.bias, z, true));
  if (options.mask != kNoValue && e.Check("mask", options.mask)) {
    const TensorType& type = e.Type(options.mask);
    if (type.dtype != DType::kPred) {
      e.Fail(InvalidField("mask", ToString(type), "pred", ": numbers are a bias"));
    } else if (!InferBroadcast(type, e.Type(z).dims).ok()) {
      e.Fail(absl::StrCat("mask is ", ToString(type), ", must broadcast to the scores' ",
                          ToString(absl::MakeConstSpan(e.Type(z).dims))));
    }
    if (e.ok()) z = Where(e, e.Spread(options.mask, z), z);
  }
  if (options.causal) z = Where(e, SeenKeys(e, z), z);
  if (!e.ok()) return e.Finish(q);
  ValueId p = e.Take(AddSoftmax(b, z, -1));
  if (e.ok() && v_type.dtype != DType::kF32) p = e.Cast(p, v_type.dtype);
  return e.Finish(e.ok() ? e.TakeAs("probabilities times v", b.Matmul(p, v)) : kNoValue);
}

}  // namespace sinter
