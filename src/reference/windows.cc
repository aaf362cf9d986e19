// Windows of pixels, as pooling and depthwise convolutions read them.
#include <algorithm>

#include "src/reference/evaluator.h"
#include "src/reference/rows.h"

namespace sinter::reference {

Tensor Windows(const View& x, const View& fill, const Conv2d& conv,
               const std::vector<int64_t>& dims, int threads) {
  Tensor result = MakeTensor(dims);
  if (result.owned->empty()) return result;
  double outside = 0;
  ReadRun(fill, 0, 1, 1, &outside);
  const int64_t channels = dims[5], taps = dims[3] * dims[4];
  ParallelFor(threads, dims[0] * dims[1] * dims[2], 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t q = i % dims[2], p = i / dims[2] % dims[1], image = i / dims[2] / dims[1];
      double* to = result.owned->data() + i * taps * channels;
      for (int64_t tap = 0; tap < taps; ++tap, to += channels) {
        const int64_t y = p * conv.strides[0] + tap / dims[4] * conv.dilations[0] - conv.pads[0];
        const int64_t at = q * conv.strides[1] + tap % dims[4] * conv.dilations[1] - conv.pads[2];
        if (y < 0 || y >= x.dims[1] || at < 0 || at >= x.dims[2]) {
          std::fill_n(to, channels, outside);
          continue;
        }
        const int64_t offset = image * x.strides[0] + y * x.strides[1] + at * x.strides[2];
        ReadRun(x, offset, x.strides[3], channels, to);
      }
    }
  });
  return result;
}

}  // namespace sinter::reference
