// The choices that name composites in addition to their sizes: activation, layout of a weight, how
// precisely sums of e4m3 codes are kept, which elements share a scale, how a checkpoint has codes
// of four bits, how a filter moves over pixels.
#ifndef SINTER_SRC_CHAIN_CHOICES_H_
#define SINTER_SRC_CHAIN_CHOICES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/fields.h"

namespace sinter {

// Values are part of plan records and of the C ABI: never reused.
enum class Activation : int32_t {
  kIdentity = 0,
  kRelu = 1,
  kGeluTanh = 2,
  kGeluErf = 3,
  kSilu = 4
};
constexpr Activation kActivations[] = {Activation::kIdentity, Activation::kRelu,
                                       Activation::kGeluTanh, Activation::kGeluErf,
                                       Activation::kSilu};

// How a weight lies in memory: kOI is [out, in] (nn.Linear), kIO is [in, out].
enum class Layout : int32_t { kOI = 1, kIO = 2 };

absl::string_view NameOf(Activation act);  // "identity", "relu", "gelu_tanh", "gelu_erf", "silu"
absl::string_view NameOf(Layout layout);   // "oi", "io"
absl::StatusOr<Activation> ParseActivation(absl::string_view name);
absl::StatusOr<Layout> ParseLayout(absl::string_view name);

// Numbers are part of the canonical form: never reused.
enum class Accumulate : int32_t {
  kPromoted = 0,  // sums of 128 of k are added in f32
  kFast = 1,      // kernels may keep all of k in the tensor cores' coarser sums
};

absl::string_view NameOf(Accumulate accumulate);  // "promoted", "fast"
absl::StatusOr<Accumulate> ParseAccumulate(absl::string_view name);
bool IsValid(Accumulate accumulate);

// Numbers are part of the C ABI: never reused.
enum class Granularity : int32_t {
  kTensor = 1,
  kRow = 2,
  kGroup = 3,   // 128 elements of a row
  kStatic = 4,  // the tensor, by a scale that is given
};

absl::string_view NameOf(Granularity granularity);  // "tensor", "row", "group", "static"
absl::StatusOr<Granularity> ParseGranularity(absl::string_view name);
bool IsValid(Granularity granularity);

// How a checkpoint has codes of four bits. Numbers are part of the C ABI: never reused.
enum class Checkpoint : int32_t {
  kRows = 1,  // two neighbours of k in a byte
  kAwq = 2,
  kGptq = 3,    // zeros less one
  kGptqV2 = 4,  // zeros as they are
  kCompressedTensors = 5,
};
constexpr std::array<Checkpoint, 5> kCheckpoints = {Checkpoint::kRows, Checkpoint::kAwq,
                                                    Checkpoint::kGptq, Checkpoint::kGptqV2,
                                                    Checkpoint::kCompressedTensors};

absl::string_view NameOf(Checkpoint checkpoint);  // "rows", "awq", "gptq", "gptq_v2", ..
absl::StatusOr<Checkpoint> ParseCheckpoint(absl::string_view name);
bool IsValid(Checkpoint checkpoint);

// Names of choices in texts, and what people also call kinds of chains, keys and activations:
// suggestions in errors.

// "; did you mean gated_ffn or gemm_chain?": the words of `known` that are another name of `word`,
// else the one that is spelt most like it. "" for none.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& known);
// The same with other names only, for `known` words that look alike and mean different things.
std::string KnownAs(absl::string_view word, const std::vector<std::string>& known);
// Says where an activation belongs that was written as a kind of chain: ", an activation: matmul ..
// act=silu". "" for a word that does not name an activation.
std::string ActivationHint(absl::string_view word);

constexpr char kActivationWords[] = "identity relu gelu_tanh gelu_erf silu";
constexpr char kDTypeWords[] = "f32 f16 bf16";

constexpr int64_t kMaxConvStep = 1024;  // of strides and dilations
constexpr int64_t kMaxConvPad = 1024;
constexpr int64_t kMaxWindowTaps = 1024;  // of an axis

// How a filter lies in memory: kOHWI is [out, height, width, in], kHWIO is [height, width, in,
// out]. Numbers are part of the canonical form and of the C ABI: never reused.
enum class FilterLayout : int32_t { kOHWI = 1, kHWIO = 2 };

absl::string_view NameOf(FilterLayout layout);  // "OHWI", "HWIO"
absl::StatusOr<FilterLayout> ParseFilterLayout(absl::string_view name);
bool IsValid(FilterLayout layout);

// Result pixel (p, q) sums the taps (r, s): x[p * stride + r * dilation - top, ..] * w[r, s], with
// zeros around the image. In several groups the channels of x and of the result are cut into as
// many equal parts, and each part of the result sums the channels of its part of x.
struct Conv2d {
  FilterLayout filter = FilterLayout::kOHWI;
  std::array<int64_t, 2> strides{1, 1};     // height, width
  std::array<int64_t, 2> dilations{1, 1};   // height, width
  std::array<int64_t, 4> pads{0, 0, 0, 0};  // top, bottom, left, right
  int64_t groups = 1;                       // of channels

  // Axes of the filter's dims.
  int out_axis() const { return filter == FilterLayout::kOHWI ? 0 : 3; }
  int in_axis() const { return filter == FilterLayout::kOHWI ? 3 : 2; }
  int height_axis() const { return filter == FilterLayout::kOHWI ? 1 : 0; }  // width: the next

  // Pixels from the first to the last tap of an axis (0 height, 1 width) of `extent` taps.
  int64_t Reach(int axis, int64_t extent) const { return dilations[axis] * (extent - 1) + 1; }
  // Pixels of the result along an axis where the image has `pixels`; below 1 where the filter is
  // larger than the padded image.
  int64_t ResultPixels(int axis, int64_t pixels, int64_t extent) const;

  SINTER_FIELDS(Conv2d, filter, strides, dilations, pads, groups);
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CHOICES_H_
