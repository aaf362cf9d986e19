// Mean and second moment about the mean of the same elements, in one pass: Welford's update, and
// the join of two of them by Chan, Golub and LeVeque. Neither squares what is large beside the
// deviations.
#pragma once
#include "stitch/math.cuh"

namespace sinter {

// Of `count` elements; `squares` is the sum of the squared deviations from `mean`.
struct alignas(16) Moments {
  float mean, squares, count, unused;

  // The element that makes them 1 / `share` elements.
  SINTER_DEVICE void take(float x, float share) {
    const float deviation = x - mean;
    mean += deviation * share;
    squares += deviation * (x - mean);
  }
};

struct JoinMoments {
  static SINTER_DEVICE Moments empty(Moments) { return {0.0f, 0.0f, 0.0f, 0.0f}; }
  static SINTER_DEVICE Moments join(const Moments& a, const Moments& b) {
    const float count = a.count + b.count;
    const float share = count > 0.0f ? b.count * reciprocal_approx(count) : 0.0f;
    const float apart = b.mean - a.mean;
    return {a.mean + apart * share, a.squares + b.squares + apart * apart * (share * a.count),
            count, 0.0f};
  }

  // Many at once: sums about one of their means, which wait for each other less than joins do.
  template <int kCount>
  static SINTER_DEVICE Moments join(const Moments (&parts)[kCount]) {
    const float pivot = parts[0].mean;
    float count = 0.0f, apart = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      count += parts[i].count;
      apart = fmaf(parts[i].count, parts[i].mean - pivot, apart);
    }
    const float mean = count > 0.0f ? fmaf(apart, reciprocal_approx(count), pivot) : 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float from = parts[i].mean - mean;
      squares += fmaf(parts[i].count * from, from, parts[i].squares);
    }
    return {mean, squares, count, 0.0f};
  }
};

}  // namespace sinter
