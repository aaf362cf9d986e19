// Mean and sum of squared deviations in one pass: Welford's update, and the join of two parts by
// Chan, Golub and LeVeque. Both square deviations only, so that a large mean cancels nothing.
#pragma once
#include "stitch/math.cuh"

namespace sinter {

// Of `count` elements; `squares` is the sum of the squared deviations from `mean`.
struct alignas(16) Moments {
  float mean, squares, count, unused;

  // Adds the n-th element; `share` is 1 / n. The caller sets `count`.
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

  // Joins many at once, as sums about the first mean: fewer operations wait for each other than in
  // joins two by two.
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
