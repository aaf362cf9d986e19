// Windows, depthwise convolutions and pooling against loops over the taps.
#include "tests/support/chains.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::ExpectNear;
using testing::Random;
using testing::RunF64;

struct WindowCase {
  int64_t batch, h, w, channels;
  std::array<int64_t, 2> taps;
  Conv2d moves;
};

std::vector<WindowCase> Cases() {
  Conv2d same, by_two, odd;
  same.pads = {1, 1, 1, 1};
  by_two = same;
  by_two.strides = {2, 2};
  odd.strides = {1, 3};
  odd.dilations = {2, 1};
  odd.pads = {3, 0, 1, 2};
  return {{2, 5, 4, 3, {3, 3}, same},
          {1, 7, 6, 2, {3, 3}, by_two},
          {2, 5, 7, 4, {2, 3}, odd},
          {3, 1, 1, 5, {3, 3}, same},
          {1, 3, 4, 2, {1, 1}, Conv2d()}};
}

// Calls `tap` for each tap of each result with the place of its pixel in x, -1 outside, in the
// order of a window's result.
void ForEachTap(const WindowCase& c, const std::function<void(int64_t)>& tap) {
  const int64_t p = c.moves.ResultPixels(0, c.h, c.taps[0]);
  const int64_t q = c.moves.ResultPixels(1, c.w, c.taps[1]);
  const int64_t all = c.batch * p * q * c.taps[0] * c.taps[1] * c.channels;
  for (int64_t i = 0; i < all; ++i) {
    int64_t rest = i;
    const auto next = [&](int64_t extent) {
      const int64_t at = rest % extent;
      rest /= extent;
      return at;
    };
    const int64_t channel = next(c.channels), s = next(c.taps[1]), r = next(c.taps[0]);
    const int64_t column = next(q), row = next(p);
    const int64_t y = row * c.moves.strides[0] + r * c.moves.dilations[0] - c.moves.pads[0];
    const int64_t x = column * c.moves.strides[1] + s * c.moves.dilations[1] - c.moves.pads[2];
    const bool inside = y >= 0 && y < c.h && x >= 0 && x < c.w;
    tap(inside ? ((rest * c.h + y) * c.w + x) * c.channels + channel : -1);
  }
}

ValueId Image(ChainBuilder& b, const WindowCase& c) {
  return *b.Input({DType::kF32, {Dim::M(), C(c.h), C(c.w), C(c.channels)}});
}

std::vector<double> ResultOf(ChainBuilder& b, ValueId result, const WindowCase& c,
                             const std::vector<std::vector<double>>& inputs) {
  return RunF64(Finished(b, {result}), c.batch, inputs)[0];
}

std::vector<double> ImageOf(const WindowCase& c) {
  return Random(DType::kF32, c.batch * c.h * c.w * c.channels, 3);
}

TEST(Window, GivesThePixelsOfEachTapAndTheFillAround) {
  for (const WindowCase& c : Cases()) {
    const std::vector<double> x = ImageOf(c);
    ChainBuilder b;
    const ValueId image = Image(b, c);
    const ValueId window = *b.Window(image, *b.Scalar(-2), c.taps, c.moves);
    std::vector<double> expected;
    ForEachTap(c,
               [&](int64_t at) { expected.push_back(at < 0 ? -2 : x[static_cast<size_t>(at)]); });
    EXPECT_EQ(ResultOf(b, window, c, {x}), expected);
  }
}

// For each result and channel: the taps' pixels, NaN outside.
std::vector<std::vector<double>> TapsOf(const WindowCase& c, const std::vector<double>& x) {
  std::vector<double> flat;
  ForEachTap(c, [&](int64_t at) {
    flat.push_back(at < 0 ? std::numeric_limits<double>::quiet_NaN() : x[static_cast<size_t>(at)]);
  });
  const int64_t taps = c.taps[0] * c.taps[1], block = taps * c.channels;
  std::vector<std::vector<double>> results;
  for (int64_t i = 0; i < static_cast<int64_t>(flat.size()) / taps; ++i) {
    results.emplace_back();
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t first = i / c.channels * block + i % c.channels;
      results.back().push_back(flat[static_cast<size_t>(first + tap * c.channels)]);
    }
  }
  return results;
}

TEST(Window, IsPooledToItsLargestPixelAndToItsMean) {
  for (const WindowCase& c : Cases()) {
    const std::vector<double> x = ImageOf(c);
    std::vector<double> most, mean, inside;
    for (const std::vector<double>& taps : TapsOf(c, x)) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
      for (const double tap : taps) {
        if (std::isnan(tap)) continue;
        largest = std::max(largest, tap);
        sum += tap;
        ++count;
      }
      most.push_back(largest);
      mean.push_back(sum / static_cast<double>(taps.size()));
      inside.push_back(sum / count);
    }
    ChainBuilder largest, all, within;
    const ValueId pooled = *AddMaxPool2d(largest, Image(largest, c), c.taps, c.moves);
    EXPECT_EQ(ResultOf(largest, pooled, c, {x}), most);
    if (c.moves.dilations != Conv2d().dilations) continue;
    const ValueId average = *AddAvgPool2d(all, Image(all, c), c.taps, c.moves, true);
    ExpectNear(ResultOf(all, average, c, {x}), mean, 1e-12);
    const ValueId counted = *AddAvgPool2d(within, Image(within, c), c.taps, c.moves, false);
    ExpectNear(ResultOf(within, counted, c, {x}), inside, 1e-12);
  }
}

TEST(Window, KeepsNaNInItsLargestPixel) {
  const WindowCase c{1, 2, 2, 1, {2, 2}, Conv2d()};
  ChainBuilder b;
  const ValueId pooled = *AddMaxPool2d(b, Image(b, c), c.taps, c.moves);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(ResultOf(b, pooled, c, {{1, nan, 3, 2}})[0]));
}

TEST(DepthwiseConv, SumsEachChannelsTapsTimesItsOwnFilter) {
  for (WindowCase c : Cases()) {
    for (const FilterLayout layout : {FilterLayout::kOHWI, FilterLayout::kHWIO}) {
      c.moves.filter = layout;
      const bool first = layout == FilterLayout::kOHWI;
      const int64_t taps = c.taps[0] * c.taps[1];
      const std::vector<double> x = ImageOf(c), w = Random(DType::kF32, taps * c.channels, 5);
      std::vector<double> expected;
      for (const std::vector<double>& pixels : TapsOf(c, x)) {
        const auto channel = static_cast<int64_t>(expected.size()) % c.channels;
        double sum = 0;
        for (int64_t tap = 0; tap < taps; ++tap) {
          const double pixel = pixels[static_cast<size_t>(tap)];
          const int64_t at = first ? channel * taps + tap : tap * c.channels + channel;
          if (!std::isnan(pixel)) sum += pixel * w[static_cast<size_t>(at)];
        }
        expected.push_back(sum);
      }
      ChainBuilder b;
      const ValueId image = Image(b, c);
      const std::vector<Dim> dims =
          first ? std::vector<Dim>{C(c.channels), C(c.taps[0]), C(c.taps[1]), C(1)}
                : std::vector<Dim>{C(c.taps[0]), C(c.taps[1]), C(1), C(c.channels)};
      const ValueId filter = *b.Input({DType::kF32, dims});
      const ValueId y = *AddConv2d(b, image, filter, c.moves, c.channels);
      EXPECT_EQ(b.TypeOf(y).dtype, DType::kF32);
      ExpectNear(ResultOf(b, y, c, {x, w}), expected, 1e-12);
    }
  }
}

}  // namespace
}  // namespace sinter
