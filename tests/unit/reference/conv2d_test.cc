// Convolutions against loops over a padded image.
#include "src/chain/problem.h"
#include "src/reference/evaluator.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::ExpectNear;
using testing::Random;
using testing::RunF64;

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
