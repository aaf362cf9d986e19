// Small graphs that read windows of pixels: depthwise convolutions, pooling. Extent 0 is M.
#pragma once

#include "src/chain/chain.h"
#include "src/chain/choices.h"
#include "tests/support/common.h"

namespace sinter::testing {

struct WindowShape {
  int64_t batch = 0, height = 1, width = 1, channels = 1;
  std::array<int64_t, 2> taps{3, 3};
  Conv2d moves;  // and how the filter lies
};

// silu(b + conv(x, w)) of x of `dtype` and one filter a channel; with `around` x is relu(s x + t)
// of each channel, and a residual of the result's dims is added. `dtype` again.
Chain DepthwiseConv(const WindowShape& shape, DType dtype, bool around = false);

enum class Pooling { kMax, kAverage, kAverageInside };
// Pools x of `dtype`; the result has the same type.
Chain Pool(const WindowShape& shape, DType dtype, Pooling pooling);

// layernorm over the channels of a depthwise convolution; its mean over the pixels too.
Chain NormOfDepthwiseConv(const WindowShape& shape, DType dtype);

// Windows of x of `dtype`, unreduced, with `fill` around, channels first.
Chain WindowsTurned(const WindowShape& shape, DType dtype, double fill);

// sum over the taps of windows of x times g, which has a number of each result's pixel and tap, or
// of each element of the result: read at the results' own pixels.
Chain WindowsTimes(const WindowShape& shape, DType dtype, bool each_tap);

struct WindowGraph {
  std::string name;
  Chain chain;
  int64_t m = 0;
};
// All of them in several sizes: channels that are a multiple of a vector and others, images of one
// pixel, strides, dilations and pads of all sides, all types.
std::vector<WindowGraph> WindowGraphs();

}  // namespace sinter::testing
