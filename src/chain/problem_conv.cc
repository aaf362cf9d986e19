#include "absl/strings/numbers.h"
#include "src/base/status.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"
#include "src/chain/problem_kinds.h"

namespace sinter {
namespace {

// Height and width of a pair, or one number for both.
std::array<int64_t, 2> Pair(const FieldValues& v, const char* key) {
  const std::vector<std::string> items = v.List(key);
  std::array<int64_t, 2> pair{};
  for (size_t i = 0; i < pair.size(); ++i) {
    if (!absl::SimpleAtoi(items[items.size() == 1 ? 0 : i], &pair[i])) pair[i] = 0;
  }
  return pair;
}

void SetSamePads(ConvLayer* layer) {
  for (size_t axis = 0; axis < 2; ++axis) {
    const auto [low, high] = SamePads(layer->taps[axis], layer->conv.dilations[axis]);
    layer->conv.pads[2 * axis] = low;
    layer->conv.pads[2 * axis + 1] = high;
  }
}

void SetPads(const FieldValues& v, ConvLayer* layer) {
  if (v.Name("pad") == "same") return SetSamePads(layer);
  const std::vector<std::string> items = v.List("pad");
  for (size_t i = 0; i < layer->conv.pads.size(); ++i) {
    int64_t& pad = layer->conv.pads[i];
    if (!absl::SimpleAtoi(items[items.size() == 1 ? 0 : i], &pad)) pad = 0;
  }
}

ConvSpec SpecOf(const FieldValues& v) {
  ConvSpec spec;
  spec.channels = v.Extent("ic");
  spec.height = v.Extent("h");
  spec.width = v.Extent("w");
  spec.filter = ParseFilterLayout(v.Name("weights")).value_or(FilterLayout::kOHWI);
  spec.dtype = DTypeOf(v);
  return spec;
}

// With the strides, pads and dilations of the line.
ConvLayer LayerOf(const FieldValues& v, const char* out, const char* taps) {
  ConvLayer layer;
  layer.out = v.Extent(out);
  layer.taps = Pair(v, taps);
  layer.conv.strides = Pair(v, "stride");
  layer.conv.dilations = Pair(v, "dilation");
  SetPads(v, &layer);
  layer.act = ActOf(v);
  return layer;
}

absl::StatusOr<Chain> MakeConvPair(const FieldValues& v) {
  ConvSpec spec = SpecOf(v);
  ConvLayer first = LayerOf(v, "oc1", "k1"), second;
  first.bias = v.Flag("bias1");
  second.out = v.Extent("oc2");
  second.taps = Pair(v, "k2");
  SetSamePads(&second);
  second.bias = v.Flag("bias2");
  spec.layers = {first, second};
  return MakeConvChain(spec);
}

absl::StatusOr<Chain> MakeConv(const FieldValues& v) {
  ConvSpec spec = SpecOf(v);
  ConvLayer layer = LayerOf(v, "oc", "k");
  layer.scale = v.Flag("scale");
  layer.bias = v.Flag("bias");
  layer.groups = v.Extent("groups");
  const std::string& residual = v.Name("residual");
  if (residual == "before") layer.residual = ConvResidual::kBeforeActivation;
  if (residual == "behind") layer.residual = ConvResidual::kBehindActivation;
  spec.layers = {layer};
  return MakeConvChain(spec);
}

// One depthwise convolution.
absl::StatusOr<Chain> MakeDepthwiseConv(const FieldValues& v) {
  ConvSpec spec = SpecOf(v);
  ConvLayer layer = LayerOf(v, "ic", "k");
  layer.groups = layer.out;
  layer.scale = v.Flag("scale");
  layer.bias = v.Flag("bias");
  spec.layers = {layer};
  return MakeConvChain(spec);
}

absl::StatusOr<Chain> MakePool(const FieldValues& v) {
  const auto extent = [&](const char* key) { return Dim::Constant(v.Extent(key)); };
  const DType dtype = DTypeOf(v);
  ConvLayer layer;
  layer.taps = Pair(v, "k");
  layer.conv.strides = Pair(v, "stride");
  SetPads(v, &layer);
  ChainBuilder b;
  SINTER_ASSIGN_OR_RETURN(
      const ValueId x,
      b.Input({dtype, {Dim::M(), extent("h"), extent("w"), extent("ic")}}, {false, {}, "x"}));
  SINTER_ASSIGN_OR_RETURN(ValueId y,
                          v.Name("pool") == "max"
                              ? AddMaxPool2d(b, x, layer.taps, layer.conv)
                              : AddAvgPool2d(b, x, layer.taps, layer.conv, v.Flag("count_pads")));
  SINTER_ASSIGN_OR_RETURN(y, b.Cast(y, dtype));
  SINTER_RETURN_IF_ERROR(b.Output(y));
  return b.Finish();
}

const FieldSpec kBatch{"b", FieldType::kRows, nullptr, "images"};
const FieldSpec kIn{"ic", FieldType::kExtent, nullptr, "channels of x"};
const FieldSpec kHeight{"h", FieldType::kExtent, nullptr, "rows of an image of x"};
const FieldSpec kWidth{"w", FieldType::kExtent, nullptr, "pixels of a row of x"};
const FieldSpec kOut{"oc", FieldType::kExtent, nullptr, "channels of the result"};
const FieldSpec kOut1{"oc1", FieldType::kExtent, nullptr, "channels of the first result"};
const FieldSpec kOut2{"oc2", FieldType::kExtent, nullptr, "channels of the second result"};
const FieldSpec kTaps{"k", FieldType::kPair, nullptr, "taps of the filter"};
const FieldSpec kTaps1{"k1", FieldType::kPair, nullptr, "taps of the first filter"};
const FieldSpec kTaps2{"k2", FieldType::kPair, nullptr, "taps of the second filter"};
const FieldSpec kStride{"stride", FieldType::kPair, "1", "pixels from one result to the next"};
const FieldSpec kDilation{"dilation", FieldType::kPair, "1", "pixels from one tap to the next"};
const FieldSpec kPad{"pad", FieldType::kPads, "same",
                     "zeros around an image; same keeps its size at stride 1"};
const FieldSpec kWeights{
    "weights",   FieldType::kName,
    "OHWI",      "of filters: [out, height, width, in] or [height, width, in, out]",
    "HWIO OHWI", "PyTorch: weight.to(memory_format=torch.channels_last)"};
const FieldSpec kFormat{"format", FieldType::kName,
                        "NHWC",   "of x and the result: [batch, height, width, channels]",
                        "NHWC",   "PyTorch: x.to(memory_format=torch.channels_last)"};
const FieldSpec kGroups{"groups", FieldType::kExtent, "1", "of channels"};
const FieldSpec kOneGroup{"groups", FieldType::kName, "1", "of channels", "1"};
const FieldSpec kBias{"bias", FieldType::kFlag, "0", "whether it has one"};
const FieldSpec kFirstBias{"bias1", FieldType::kFlag, "0", "whether the first has one"};
const FieldSpec kSecondBias{"bias2", FieldType::kFlag, "0", "whether the second has one"};
const FieldSpec kConvScale{"scale", FieldType::kFlag, "0",
                           "whether each channel has a factor (a folded batch norm)"};
const FieldSpec kConvResidual{"residual", FieldType::kName, "none",
                              "what is added before or behind the activation",
                              "none before behind"};

const FieldSpec kPool{"pool", FieldType::kName, "max", "of the pixels of a window", "max avg"};
const FieldSpec kCountPads{"count_pads", FieldType::kFlag, "1",
                           "whether a mean counts zeros around the image"};

}  // namespace

std::vector<KindSpec> ConvKinds() {
  return {
      {"conv",
       {kBatch, kIn, kHeight, kWidth, kOut, kTaps, kOptionalAct, kStride, kPad, kDilation,
        kConvScale, kBias, kConvResidual, kWeights, kFormat, kGroups, kDType},
       MakeConv,
       "act(s * conv(x, w) + b + r), or with residual=behind r outside of act",
       "x[b,h,w,ic] w*, with scale s*[oc], with bias b*[oc], with residual r as the result"},
      {"conv_chain",
       {kBatch, kIn, kHeight, kWidth, kOut1, kOut2, kTaps1, kTaps2, kOptionalAct, kStride, kPad,
        kDilation, kWeights, kFormat, kOneGroup, kDType, kFirstBias, kSecondBias},
       MakeConvPair,
       "conv(c, w2) + bias2 with c = act(conv(x, w1) + bias1); the second of stride 1, pad same",
       "x[b,h,w,ic] w1*, with bias1=1 bias1*[oc1], w2*, with bias2=1 bias2*[oc2]"},
      {"depthwise_conv",
       {kBatch, kIn, kHeight, kWidth, kTaps, kOptionalAct, kStride, kPad, kDilation, kConvScale,
        kBias, kWeights, kFormat, kDType},
       MakeDepthwiseConv,
       "act(s * y + b), each channel of y that of x with a filter of its own",
       "x[b,h,w,ic] w*, with scale s*[ic], with bias b*[ic]"},
      {"pool",
       {kBatch, kIn, kHeight, kWidth, kTaps, kPool, kStride, kPad, kCountPads, kFormat, kDType},
       MakePool,
       "the largest pixel of each window, or the mean",
       "x[b,h,w,ic]"},
  };
}

}  // namespace sinter
