// PixelWindow: rows that a convolution takes from an image, one for each pixel of its result: the
// pixels under the taps of its filter, side by side. What TMA loads in its im2col mode.
#ifndef SINTER_SRC_PRODUCT_PIXEL_WINDOW_H_
#define SINTER_SRC_PRODUCT_PIXEL_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "src/base/codec.h"
#include "src/base/numbers.h"
#include "src/chain/conv2d.h"

namespace sinter {

constexpr int64_t kSubtileChannels = 64;  // of 16 bits: 128-byte rows of a stage

struct PixelWindow {
  int64_t height = 0, width = 0, channels = 0;  // of an image
  std::array<int64_t, 2> taps{0, 0};            // height, width
  Conv2d conv;  // strides, dilations and pads; the filter's layout is the weights'

  int64_t Pixels(int axis) const {  // of the result
    return conv.ResultPixels(axis, axis == 0 ? height : width, taps[axis]);
  }
  int64_t RowsPerM() const { return Pixels(0) * Pixels(1); }
  bool grouped() const { return conv.groups > 1; }
  int64_t GroupChannels() const { return channels / conv.groups; }
  // Groups beside each other whose channels share a row of a stage, and whose columns share tiles:
  // the filters of a bundle are a matrix with blocks along its diagonal. A group of more channels
  // than a row of a stage has is a bundle by itself.
  int64_t Bundle() const {
    return std::clamp<int64_t>(kSubtileChannels / GroupChannels(), 1, conv.groups);
  }
  int64_t BundleChannels() const { return Bundle() * GroupChannels(); }
  int64_t Columns() const { return taps[0] * taps[1] * GroupChannels(); }
  // Stages have whole 128-byte rows of one tap: the channels of a bundle, then zeros, or of rows
  // the next bundle's channels, whose weights are zeros.
  int64_t StagedTap() const { return RoundUp(BundleChannels(), kSubtileChannels); }
  // Whether the tensor map of the filter has an axis of taps, so that channels that a tap lacks are
  // read as zeros.
  bool CountsTaps() const { return grouped() || StagedTap() != channels; }
  int64_t StagedColumns() const { return taps[0] * taps[1] * StagedTap(); }
  // Corners of the box that the first taps of results lie in: height, width.
  int64_t LowerCorner(int axis) const { return -conv.pads[2 * axis]; }
  int64_t UpperCorner(int axis) const {
    return conv.pads[2 * axis + 1] - conv.dilations[axis] * (taps[axis] - 1);
  }
  bool operator==(const PixelWindow& o) const {
    return height == o.height && width == o.width && channels == o.channels && taps == o.taps &&
           conv == o.conv;
  }
};

// Checks the bounds of im2col maps and loads. The error names the field, the value and the bound.
absl::Status CheckWindow(const PixelWindow& window);

void WriteWindow(const PixelWindow& window, ByteWriter& w);
void ReadWindow(ByteReader& r, PixelWindow& window);  // CheckWindow says whether it is one

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PIXEL_WINDOW_H_
