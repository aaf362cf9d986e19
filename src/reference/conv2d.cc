// Direct convolution over strided views.
#include <algorithm>
#include <cstring>
#include <vector>

#include "src/reference/evaluator.h"
#include "src/reference/parallel.h"

namespace sinter::reference {
namespace {

constexpr int64_t kLanes = 4;

typedef double Lane __attribute__((vector_size(32), aligned(8)));

// sum[i] += factor * row[i], `count` a multiple of kLanes.
inline void AddScaled(double factor, const double* row, int64_t count, double* sum) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Lane a, b;
    std::memcpy(&a, sum + i, sizeof a);
    std::memcpy(&b, row + i, sizeof b);
    a += factor * b;
    std::memcpy(sum + i, &a, sizeof a);
  }
}

// The extents, and the filter as [height][width][in][padded out] in f64.
struct Filter {
  int64_t taps[2], in, out, padded;
  std::vector<double> values;

  Filter(const View& w, const Conv2d& conv) {
    const int height = conv.height_axis();
    taps[0] = w.dims[height], taps[1] = w.dims[height + 1];
    in = w.dims[conv.in_axis()], out = w.dims[conv.out_axis()];
    padded = (out + kLanes - 1) / kLanes * kLanes;
    values.resize(static_cast<size_t>(taps[0] * taps[1] * in * padded));
    double* to = values.data();
    for (int64_t r = 0; r < taps[0]; ++r) {
      for (int64_t s = 0; s < taps[1]; ++s) {
        for (int64_t c = 0; c < in; ++c, to += padded) {
          const int64_t offset =
              r * w.strides[height] + s * w.strides[height + 1] + c * w.strides[conv.in_axis()];
          ReadRun(w, offset, w.strides[conv.out_axis()], out, to);
        }
      }
    }
  }
  const double* Row(int64_t r, int64_t s, int64_t c) const {
    return values.data() + ((r * taps[1] + s) * in + c) * padded;
  }
};

// One row of result pixels.
class RowOfPixels {
 public:
  RowOfPixels(const View& x, const Filter& filter, const Conv2d& conv)
      : x_(x),
        filter_(filter),
        conv_(conv),
        pixel_(static_cast<size_t>(filter.in)),
        sum_(static_cast<size_t>(filter.padded)) {}

  void Compute(int64_t image, int64_t p, int64_t columns, double* out) {
    for (int64_t q = 0; q < columns; ++q, out += filter_.out) {
      std::fill(sum_.begin(), sum_.end(), 0.0);
      for (int64_t r = 0; r < filter_.taps[0]; ++r) {
        const int64_t y = p * conv_.strides[0] + r * conv_.dilations[0] - conv_.pads[0];
        for (int64_t s = 0; y >= 0 && y < x_.dims[1] && s < filter_.taps[1]; ++s) {
          const int64_t at = q * conv_.strides[1] + s * conv_.dilations[1] - conv_.pads[2];
          if (at >= 0 && at < x_.dims[2]) AddTap(image, y, at, r, s);
        }
      }
      std::copy_n(sum_.begin(), filter_.out, out);
    }
  }

 private:
  void AddTap(int64_t image, int64_t y, int64_t at, int64_t r, int64_t s) {
    const int64_t offset = image * x_.strides[0] + y * x_.strides[1] + at * x_.strides[2];
    ReadRun(x_, offset, x_.strides[3], filter_.in, pixel_.data());
    for (int64_t c = 0; c < filter_.in; ++c) {
      AddScaled(pixel_[static_cast<size_t>(c)], filter_.Row(r, s, c), filter_.padded, sum_.data());
    }
  }

  const View& x_;
  const Filter& filter_;
  const Conv2d& conv_;
  std::vector<double> pixel_, sum_;
};

}  // namespace

Tensor Convolve(const View& x, const View& w, const Conv2d& conv, int threads) {
  const Filter filter(w, conv);
  const int64_t rows = conv.ResultPixels(0, x.dims[1], filter.taps[0]);
  const int64_t columns = conv.ResultPixels(1, x.dims[2], filter.taps[1]);
  Tensor result = MakeTensor({x.dims[0], rows, columns, filter.out});
  if (result.owned->empty()) return result;
  ParallelFor(threads, x.dims[0] * rows, 1, [&](int64_t begin, int64_t end) {
    RowOfPixels row(x, filter, conv);
    for (int64_t i = begin; i < end; ++i) {
      row.Compute(i / rows, i % rows, columns, result.owned->data() + i * columns * filter.out);
    }
  });
  return result;
}

}  // namespace sinter::reference
