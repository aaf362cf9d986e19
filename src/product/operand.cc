#include "src/product/operand.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 24;  // of an axis
constexpr int64_t kChannelStep = 8;                // 16-byte pixels of tensor maps
constexpr int64_t kMostCorner = 128;               // of im2col maps of rank 4
constexpr int64_t kMostOffset = 255;               // of im2col loads of rank 4
constexpr int64_t kMostStride = 8;                 // of elements of tensor maps

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high,
                        absl::string_view why) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(field, " ", value, " is not in [", low, ", ", high, "]", why);
}

absl::Status CheckAxis(const PixelWindow& w, int axis) {
  const int64_t pixels = axis == 0 ? w.height : w.width;
  SINTER_RETURN_IF_ERROR(CheckRange("pixels", pixels, 1, kMostPixels, ""));
  SINTER_RETURN_IF_ERROR(CheckRange("taps", w.taps[axis], 1, kMaxConvStep, ""));
  SINTER_RETURN_IF_ERROR(CheckRange("stride", w.conv.strides[axis], 1, kMostStride,
                                    " (element strides of tensor maps)"));
  SINTER_RETURN_IF_ERROR(CheckRange("dilation", w.conv.dilations[axis], 1, kMaxConvStep, ""));
  for (int side : {2 * axis, 2 * axis + 1}) {
    SINTER_RETURN_IF_ERROR(
        CheckRange("padding", w.conv.pads[side], 0, kMostCorner, " (corners of im2col maps)"));
  }
  SINTER_RETURN_IF_ERROR(CheckRange("filter reach", w.conv.Reach(axis, w.taps[axis]) - 1, 0,
                                    kMostOffset, " (offsets of im2col loads)"));
  SINTER_RETURN_IF_ERROR(CheckRange("filter reach past the padding", -w.UpperCorner(axis),
                                    1 - kMostCorner, kMostCorner, " (corners of im2col maps)"));
  return CheckRange("result pixels", w.Pixels(axis), 1, kMostPixels, "");
}

}  // namespace

absl::Status CheckWindow(const PixelWindow& window) {
  const int64_t groups = window.conv.groups;
  if (groups < 1 || window.channels % groups != 0) {
    return Invalid("groups ", groups, " do not divide the channels, ", window.channels);
  }
  const int64_t each = window.channels / groups;
  if (each < 1 || each % kChannelStep != 0) {
    return Invalid("channels ", each, groups > 1 ? " of a group" : "", " are not a multiple of ",
                   kChannelStep, " (16-byte pixels of tensor maps)");
  }
  SINTER_RETURN_IF_ERROR(CheckRange("channels", window.channels, 1, kMostPixels, ""));
  SINTER_RETURN_IF_ERROR(CheckAxis(window, 0));
  return CheckAxis(window, 1);
}

}  // namespace sinter
