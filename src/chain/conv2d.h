// Conv2d: how a filter moves over the pixels of an image.
#ifndef SINTER_SRC_CHAIN_CONV2D_H_
#define SINTER_SRC_CHAIN_CONV2D_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

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
  // Of an axis of `pixels`; below 1 where the filter is larger than the padded image.
  int64_t ResultPixels(int axis, int64_t pixels, int64_t extent) const;

  bool operator==(const Conv2d& o) const {
    return filter == o.filter && strides == o.strides && dilations == o.dilations &&
           pads == o.pads && groups == o.groups;
  }
};

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_CONV2D_H_
