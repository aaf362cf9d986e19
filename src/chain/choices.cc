#include "src/chain/choices.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/infer.h"

namespace sinter {

absl::string_view NameOf(Activation act) {
  constexpr absl::string_view kNames[] = {"identity", "relu", "gelu_tanh", "gelu_erf", "silu"};
  const auto number = static_cast<size_t>(act);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

absl::string_view NameOf(Layout layout) {
  return layout == Layout::kOI ? "oi" : layout == Layout::kIO ? "io" : "unknown";
}

absl::StatusOr<Activation> ParseActivation(absl::string_view name) {
  for (Activation act : kActivations) {
    if (name == NameOf(act)) return act;
  }
  const std::vector<std::string> words = absl::StrSplit(kActivationWords, ' ');
  return InvalidField("act", name, "identity, relu, gelu_tanh, gelu_erf or silu",
                      KnownAs(name, words));
}

absl::StatusOr<Layout> ParseLayout(absl::string_view name) {
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    if (name == NameOf(layout)) return layout;
  }
  return InvalidField("layout", name, "oi or io");
}

namespace {

constexpr absl::string_view kCheckpointNames[] = {"rows", "awq", "gptq", "gptq_v2",
                                                  "compressed_tensors"};

}  // namespace

absl::string_view NameOf(Checkpoint checkpoint) {
  return IsValid(checkpoint) ? kCheckpointNames[static_cast<size_t>(checkpoint) - 1] : "unknown";
}

absl::StatusOr<Checkpoint> ParseCheckpoint(absl::string_view name) {
  for (const Checkpoint checkpoint : kCheckpoints) {
    if (name == NameOf(checkpoint)) return checkpoint;
  }
  return InvalidField("checkpoint", name,
                      absl::StrCat("one of ", absl::StrJoin(kCheckpointNames, " ")));
}

bool IsValid(Checkpoint checkpoint) {
  const auto number = static_cast<int32_t>(checkpoint);
  return number >= 1 && number <= static_cast<int32_t>(kCheckpoints.size());
}

namespace {

struct OtherName {
  const char* word;
  const char* names;  // of kinds, keys and activations, separated by one space
};
constexpr OtherName kOtherNames[] = {
    {"ffn", "gated_ffn gemm_chain"},
    {"mlp", "gated_ffn gemm_chain"},
    {"linear", "matmul identity"},
    {"dense", "matmul"},
    {"gemm", "matmul"},
    {"mm", "matmul"},
    {"glu", "gate_up"},
    {"geglu", "gate_up"},
    {"conv2d", "conv"},
    {"depthwise", "depthwise_conv"},
    {"max_pool2d", "pool"},
    {"avg_pool2d", "pool"},
    {"norm", "rmsnorm layernorm"},
    {"swish", "silu"},
    {"gelu", "gelu_tanh gelu_erf"},
    {"none", "identity"},
    {"activation", "act"},
    {"m", "rows"},
    {"rows", "m"},
    {"n", "cols"},
    {"hidden", "cols"},
    {"bias", "bias1"},
};

// Shorter words are near to every other short one.
constexpr size_t kShortestSpelling = 3;

std::string Suggested(const std::vector<std::string>& names) {
  return names.empty() ? "" : absl::StrCat("; did you mean ", absl::StrJoin(names, " or "), "?");
}

bool Contains(const std::vector<std::string>& known, absl::string_view word) {
  return std::find(known.begin(), known.end(), word) != known.end();
}

std::vector<std::string> NamesOf(absl::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const OtherName& other : kOtherNames) {
    if (word != other.word) continue;
    for (absl::string_view name : absl::StrSplit(other.names, ' ')) {
      if (Contains(known, name)) names.emplace_back(name);
    }
  }
  return names;
}

}  // namespace

std::string KnownAs(absl::string_view word, const std::vector<std::string>& known) {
  return Suggested(NamesOf(word, known));
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known) {
  std::vector<std::string> names = NamesOf(word, known);
  if (names.empty() && word.size() >= kShortestSpelling) {
    const std::string nearest = Nearest(word, known);
    if (!nearest.empty()) names.push_back(nearest);
  }
  return Suggested(names);
}

std::string ActivationHint(absl::string_view word) {
  const std::vector<std::string> activations = absl::StrSplit(kActivationWords, ' ');
  std::vector<std::string> names = NamesOf(word, activations);
  if (Contains(activations, word)) names.insert(names.begin(), std::string(word));
  if (names.empty() || names[0] == "identity") return "";
  return absl::StrCat(", an activation: matmul .. act=", names[0]);
}

namespace {

constexpr int kPixelRank = 4;
constexpr const char* kSides[] = {"top", "bottom", "left", "right"};
constexpr const char* kAxes[] = {"height", "width"};

constexpr absl::string_view kPixelAxes = "batch, height, width, channels";

absl::Status CheckPixels(absl::string_view name, const TensorType& type, absl::string_view axes,
                         int first_constant) {
  if (type.rank() != kPixelRank) {
    return InvalidField(absl::StrCat("rank of ", name), type.rank(),
                        absl::StrCat("4 ([", axes, "])"));
  }
  for (int i = first_constant; i < kPixelRank; ++i) {
    if (!type.dims[i].symbolic) continue;
    return InvalidField(absl::StrCat("dimension ", i, " of ", name), "M", "constant",
                        ": only the batch may be symbolic");
  }
  return absl::OkStatus();
}

absl::Status CheckOperand(absl::string_view name, const TensorType& type, absl::string_view axes,
                          int first_constant) {
  if (!IsFloat(type.dtype)) {
    return InvalidField(absl::StrCat("dtype of ", name), NameOf(type.dtype), "f32, f16 or bf16");
  }
  return CheckPixels(name, type, axes, first_constant);
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, value, absl::StrCat("in [", low, ", ", high, "]"));
}

absl::Status CheckAttributes(const Conv2d& conv) {
  if (!IsValid(conv.filter)) {
    return InvalidField("filter", static_cast<int32_t>(conv.filter), "OHWI or HWIO");
  }
  for (int i = 0; i < 2; ++i) {
    SINTER_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("stride ", i), conv.strides[i], 1, kMaxConvStep));
    SINTER_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("dilation ", i), conv.dilations[i], 1, kMaxConvStep));
  }
  for (int i = 0; i < 4; ++i) {
    SINTER_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("pad ", kSides[i]), conv.pads[i], 0, kMaxConvPad));
  }
  return absl::OkStatus();
}

// Checks the groups that `channels` of x are cut into.
absl::Status CheckGroups(int64_t channels, const TensorType& w, const Conv2d& conv) {
  const Dim in = w.dims[conv.in_axis()], out = w.dims[conv.out_axis()];
  if (conv.groups < 1 || channels % conv.groups != 0) {
    return WithField(
        Invalid("groups is ", conv.groups, ", must divide the channels of x, ", channels), "groups",
        conv.groups);
  }
  const int64_t each = channels / conv.groups;
  if (in != Dim::Constant(each)) {
    return InvalidFields(
        "channels of w", ToString(in),
        absl::StrCat(
            "those of x, ", channels,
            conv.groups == 1 ? "" : absl::StrCat(", over the ", conv.groups, " groups: ", each)));
  }
  if (out.value % conv.groups == 0) return absl::OkStatus();
  return InvalidField("out of w", out.value,
                      absl::StrCat("a multiple of the ", conv.groups, " groups"));
}

// `of`: what has `extent` taps.
absl::Status CheckReach(absl::string_view of, const Conv2d& conv, int axis, int64_t pixels,
                        int64_t extent) {
  const int64_t padded = pixels + conv.pads[2 * axis] + conv.pads[2 * axis + 1];
  const int64_t reach = conv.Reach(axis, extent);
  if (reach <= padded) return absl::OkStatus();
  const std::string dilated =
      reach == extent ? "" : absl::StrCat(" (dilation ", conv.dilations[axis], ": ", reach, ")");
  return Invalid(kAxes[axis], " of ", of, " is ", extent, dilated, ", must be at most ", padded,
                 ", the extent of x with its padding");
}

}  // namespace

absl::string_view NameOf(FilterLayout layout) {
  return layout == FilterLayout::kHWIO ? "HWIO" : "OHWI";
}

absl::StatusOr<FilterLayout> ParseFilterLayout(absl::string_view name) {
  if (name == "OHWI") return FilterLayout::kOHWI;
  if (name == "HWIO") return FilterLayout::kHWIO;
  return InvalidField("filter", name, "one of HWIO OHWI",
                      " (PyTorch: weight.to(memory_format=torch.channels_last))");
}

bool IsValid(FilterLayout layout) {
  return layout == FilterLayout::kOHWI || layout == FilterLayout::kHWIO;
}

int64_t Conv2d::ResultPixels(int axis, int64_t pixels, int64_t extent) const {
  const int64_t bases = pixels + pads[2 * axis] + pads[2 * axis + 1] - Reach(axis, extent);
  return bases < 0 ? 0 : bases / strides[axis] + 1;
}

absl::StatusOr<TensorType> InferConv2d(const TensorType& x, const TensorType& w,
                                       const Conv2d& conv) {
  SINTER_RETURN_IF_ERROR(CheckAttributes(conv));
  SINTER_RETURN_IF_ERROR(CheckOperand("x", x, kPixelAxes, 1));
  SINTER_RETURN_IF_ERROR(CheckOperand(
      "w", w,
      conv.filter == FilterLayout::kOHWI ? "out, height, width, in" : "height, width, in, out", 0));
  SINTER_RETURN_IF_ERROR(CheckGroups(x.dims[3].value, w, conv));
  TensorType result{DType::kF32, {x.dims[0]}};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t pixels = x.dims[1 + axis].value;
    const int64_t extent = w.dims[conv.height_axis() + axis].value;
    SINTER_RETURN_IF_ERROR(CheckReach("w", conv, axis, pixels, extent));
    result.dims.push_back(Dim::Constant(conv.ResultPixels(axis, pixels, extent)));
  }
  result.dims.push_back(w.dims[conv.out_axis()]);
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferWindow(const TensorType& x, const TensorType& fill,
                                       const std::array<int64_t, 2>& taps, const Conv2d& conv,
                                       absl::string_view of) {
  SINTER_RETURN_IF_ERROR(CheckAttributes(conv));
  SINTER_RETURN_IF_ERROR(CheckPixels("x", x, kPixelAxes, 1));
  if (fill.rank() != 0) return InvalidField("rank of fill", fill.rank(), "0");
  if (fill.dtype != x.dtype) {
    return InvalidField("dtype of fill", NameOf(fill.dtype), absl::StrCat("x's, ", NameOf(x.dtype)),
                        ": cast it");
  }
  TensorType result{x.dtype, {x.dims[0]}};
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t pixels = x.dims[1 + axis].value;
    SINTER_RETURN_IF_ERROR(
        CheckRange(absl::StrCat(kAxes[axis], " of ", of), taps[axis], 1, kMaxWindowTaps));
    SINTER_RETURN_IF_ERROR(CheckReach(of, conv, axis, pixels, taps[axis]));
    result.dims.push_back(Dim::Constant(conv.ResultPixels(axis, pixels, taps[axis])));
  }
  for (const int64_t extent : taps) result.dims.push_back(Dim::Constant(extent));
  result.dims.push_back(x.dims[3]);
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

}  // namespace sinter
