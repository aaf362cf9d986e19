#include "src/chain/problem.h"
#include "src/reference/evaluator.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

// Windows, depthwise convolutions and pooling against loops over the taps.

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
      const ValueId y = *AddConv2d(b, image, *b.Input({DType::kF32, dims}), c.moves, c.channels);
      EXPECT_EQ(b.TypeOf(y).dtype, DType::kF32);
      ExpectNear(ResultOf(b, y, c, {x, w}), expected, 1e-12);
    }
  }
}

// Convolutions against loops over a padded image.

struct ConvCase {
  int64_t batch, h, w, in, out, r, s;
  Conv2d conv;
};

// With zeros in place, so that nothing here knows of borders.
std::vector<double> Padded(const ConvCase& c, const std::vector<double>& x) {
  const int64_t height = c.h + c.conv.pads[0] + c.conv.pads[1];
  const int64_t width = c.w + c.conv.pads[2] + c.conv.pads[3];
  std::vector<double> padded(static_cast<size_t>(c.batch * height * width * c.in), 0.0);
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    const int64_t channel = i % c.in, at = i / c.in % c.w, y = i / c.in / c.w % c.h;
    const int64_t image = i / c.in / c.w / c.h;
    padded[static_cast<size_t>(
        ((image * height + y + c.conv.pads[0]) * width + at + c.conv.pads[2]) * c.in + channel)] =
        x[static_cast<size_t>(i)];
  }
  return padded;
}

int64_t FilterIndex(const ConvCase& c, int64_t o, int64_t r, int64_t s, int64_t i) {
  if (c.conv.filter == FilterLayout::kOHWI) return ((o * c.r + r) * c.s + s) * c.in + i;
  return ((r * c.s + s) * c.in + i) * c.out + o;
}

std::vector<double> Naive(const ConvCase& c, const std::vector<double>& x,
                          const std::vector<double>& w) {
  const std::vector<double> image = Padded(c, x);
  const int64_t height = c.h + c.conv.pads[0] + c.conv.pads[1];
  const int64_t width = c.w + c.conv.pads[2] + c.conv.pads[3];
  std::vector<double> y;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t top = 0; top + c.conv.Reach(0, c.r) <= height; top += c.conv.strides[0]) {
      for (int64_t left = 0; left + c.conv.Reach(1, c.s) <= width; left += c.conv.strides[1]) {
        for (int64_t o = 0; o < c.out; ++o) {
          double sum = 0;
          for (int64_t k = 0; k < c.r * c.s * c.in; ++k) {
            const int64_t r = k / c.in / c.s, s = k / c.in % c.s, i = k % c.in;
            const int64_t row = top + r * c.conv.dilations[0], at = left + s * c.conv.dilations[1];
            sum += image[static_cast<size_t>(((b * height + row) * width + at) * c.in + i)] *
                   w[static_cast<size_t>(FilterIndex(c, o, r, s, i))];
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

void ExpectAsNaive(const ConvCase& c) {
  ChainBuilder b;
  const bool ohwi = c.conv.filter == FilterLayout::kOHWI;
  // In groups `c` is of one filter of all channels, whose zeros the grouped one leaves out.
  const int64_t groups = c.conv.groups, in = c.in / groups;
  const ValueId x = *b.Input({DType::kBF16, {Dim::M(), C(c.h), C(c.w), C(c.in)}});
  const std::vector<Dim> dims = ohwi ? std::vector<Dim>{C(c.out), C(c.r), C(c.s), C(in)}
                                     : std::vector<Dim>{C(c.r), C(c.s), C(in), C(c.out)};
  const ValueId w = *b.Input({DType::kF16, dims});
  ASSERT_TRUE(b.Output(*b.Convolve(x, w, c.conv)).ok());
  const auto pixels = Random(DType::kBF16, c.batch * c.h * c.w * c.in, 1);
  const auto filter = Random(DType::kF16, c.out * c.r * c.s * in, 2);
  const auto result = RunF64(*b.Finish(), c.batch, {pixels, filter});
  ConvCase part = c;
  part.in = in;
  std::vector<double> whole(static_cast<size_t>(c.out * c.r * c.s * c.in), 0.0);
  for (int64_t i = 0; i < c.out * c.r * c.s * in; ++i) {
    const int64_t channel = i % in, s = i / in % c.s, r = i / in / c.s % c.r,
                  o = i / in / c.s / c.r;
    const int64_t first = o / (c.out / groups) * in;
    whole[static_cast<size_t>(FilterIndex(c, o, r, s, first + channel))] =
        filter[static_cast<size_t>(FilterIndex(part, o, r, s, channel))];
  }
  ExpectNear(result[0], Naive(c, pixels, whole), 1e-13);
}

TEST(Convolution, EqualsLoopsOverAPaddedImage) {
  const ConvCase cases[] = {
      {1, 1, 1, 1, 1, 1, 1, {}},
      {3, 5, 4, 7, 9, 1, 1, {}},
      {2, 5, 4, 3, 5, 2, 2, {}},
      {2, 8, 6, 8, 12, 3, 3, {FilterLayout::kOHWI, {1, 1}, {1, 1}, {1, 1, 1, 1}}},
      {1, 9, 7, 5, 6, 5, 5, {FilterLayout::kOHWI, {1, 1}, {1, 1}, {2, 2, 2, 2}}},
      {2, 15, 13, 3, 4, 7, 7, {FilterLayout::kOHWI, {2, 2}, {1, 1}, {3, 3, 3, 3}}},
      {1, 6, 9, 4, 3, 1, 3, {FilterLayout::kOHWI, {1, 2}, {1, 1}, {0, 0, 1, 0}}},
      {1, 6, 9, 4, 3, 3, 1, {FilterLayout::kOHWI, {3, 1}, {1, 1}, {0, 2, 0, 0}}},
      {1, 9, 9, 4, 3, 3, 3, {FilterLayout::kOHWI, {1, 1}, {2, 3}, {2, 1, 3, 0}}},
      {2, 3, 2, 4, 3, 2, 2, {FilterLayout::kOHWI, {2, 2}, {1, 1}, {5, 4, 3, 2}}},  // taps wholly
                                                                                   // outside
      {2, 4, 3, 6, 5, 4, 3, {}},  // the filter is the image
      {9, 1, 1, 4, 4, 1, 1, {FilterLayout::kOHWI, {2, 2}, {1, 1}, {0, 0, 0, 0}}},
  };
  for (ConvCase c : cases) {
    for (const FilterLayout filter : {FilterLayout::kOHWI, FilterLayout::kHWIO}) {
      c.conv.filter = filter;
      ExpectAsNaive(c);
    }
  }
}

TEST(Convolution, InGroupsSumsTheChannelsOfEach) {
  for (const FilterLayout filter : {FilterLayout::kOHWI, FilterLayout::kHWIO}) {
    ExpectAsNaive({2, 5, 6, 8, 12, 3, 2, {filter, {1, 2}, {1, 1}, {1, 1, 0, 1}, 4}});
    ExpectAsNaive({1, 4, 3, 6, 6, 1, 1, {filter, {1, 1}, {1, 1}, {0, 0, 0, 0}, 3}});
    ExpectAsNaive({3, 1, 9, 4, 8, 1, 3, {filter, {1, 1}, {1, 2}, {0, 0, 2, 2}, 4}});
    ExpectAsNaive({1, 5, 5, 15, 9, 3, 3, {filter, {2, 2}, {1, 1}, {1, 1, 1, 1}, 3}});
  }
}

TEST(Convolution, OfNoImagesIsEmpty) {
  ExpectAsNaive({0, 5, 4, 3, 5, 2, 2, {}});
  ExpectAsNaive({0, 5, 4, 3, 5, 1, 1, {}});
}

TEST(Convolution, HasTheSameBitsForEveryThreadCount) {
  const auto x = Random(DType::kF32, 2 * 7 * 6 * 5, 3), w = Random(DType::kF32, 9 * 3 * 3 * 5, 4);
  const reference::View pixels{x.data(), reference::Storage::kF64, {2, 7, 6, 5}, {210, 30, 5, 1}};
  const reference::View filter{w.data(), reference::Storage::kF64, {9, 3, 3, 5}, {45, 15, 5, 1}};
  const Conv2d conv{FilterLayout::kOHWI, {2, 1}, {1, 2}, {1, 1, 2, 2}};
  const auto one = reference::Convolve(pixels, filter, conv, 1);
  for (const int threads : {2, 5}) {
    EXPECT_EQ(*reference::Convolve(pixels, filter, conv, threads).owned, *one.owned);
  }
}

// What a text line computes, spelt out: folded batch norm, bias, residual on either side of relu.
TEST(Convolution, ScaleBiasResidualAndActivationStandInOrder) {
  const ConvCase c{2, 4, 3, 8, 6, 3, 3, {FilterLayout::kOHWI, {1, 1}, {1, 1}, {1, 1, 1, 1}}};
  const auto x = Random(DType::kF32, 2 * 4 * 3 * 8, 1), w = Random(DType::kF32, 6 * 9 * 8, 2);
  const auto scale = Random(DType::kF32, 6, 3), bias = Random(DType::kF32, 6, 4);
  const auto r = Random(DType::kF32, 2 * 4 * 3 * 6, 5);
  const std::vector<double> sums = Naive(c, x, w);
  for (const bool before : {true, false}) {
    const auto problem = Got(
        ParseProblem(std::string("conv b=2 ic=8 h=4 w=3 oc=6 k=3 act=relu scale=1 bias=1 dtype=f32 "
                                 "residual=") +
                     (before ? "before" : "behind")));
    std::vector<double> want;
    for (size_t i = 0; i < sums.size(); ++i) {
      const double y = sums[i] * scale[i % 6] + bias[i % 6];
      want.push_back(before ? std::max(y + r[i], 0.0) : std::max(y, 0.0) + r[i]);
    }
    ExpectNear(RunF64(problem.chain, 2, {x, w, scale, bias, r})[0], want, 1e-6);
  }
}

}  // namespace
}  // namespace sinter
