// What kernels that read windows of pixels include besides.
#pragma once
#include "stitch/read_or.cuh"

namespace sinter {

// Whether `i` is one of `count` places.
SINTER_DEVICE bool is_inside(int i, int count) {
  return static_cast<u32>(i) < static_cast<u32>(count);
}
SINTER_DEVICE bool is_inside(long long i, int count) { return i >= 0 && i < count; }

// The one of `count` places that is nearest to `i`: what is there may be read.
SINTER_DEVICE int nearest_place(int i, int count) {
  return Common::max(0, Common::min(i, count - 1));
}
SINTER_DEVICE long long nearest_place(long long i, int count) {
  return i < 0 ? 0 : i < count ? i : count - 1;
}

}  // namespace sinter
