// Arithmetic of the primitives, each in up to three precisions. `Exact` is within a few units in
// the last place of f32. `Fast` is for results that are rounded to 16 bits or fewer: within 2^-19,
// tanh within 2^-11, a logarithm within 2^-21 where it is less than one. `BesideOne` is for
// functions that 1 is added to: within 4e-7 of their value.
#pragma once
#include "ptx/approx.cuh"
#include "ptx/functions.cuh"

namespace sinter {

struct Common {
  static SINTER_DEVICE float add(float a, float b) { return a + b; }
  static SINTER_DEVICE float sub(float a, float b) { return a - b; }
  // Not fused with a product before it: what an exponential takes of equal numbers is 0, though one
  // of them was rounded and the other may be an exact product.
  static SINTER_DEVICE float sub_alone(float a, float b) { return __fsub_rn(a, b); }
  static SINTER_DEVICE float mul(float a, float b) { return a * b; }
  static SINTER_DEVICE float max(float a, float b) { return keep_nan_max(a, b); }
  static SINTER_DEVICE float min(float a, float b) { return keep_nan_min(a, b); }
  static SINTER_DEVICE float pow(float a, float b) { return powf(a, b); }
  // s32 wraps.
  static SINTER_DEVICE int add(int a, int b) {
    return static_cast<int>(static_cast<u32>(a) + static_cast<u32>(b));
  }
  static SINTER_DEVICE int sub(int a, int b) {
    return static_cast<int>(static_cast<u32>(a) - static_cast<u32>(b));
  }
  static SINTER_DEVICE int mul(int a, int b) {
    return static_cast<int>(static_cast<u32>(a) * static_cast<u32>(b));
  }
  static SINTER_DEVICE int max(int a, int b) { return a > b ? a : b; }
  static SINTER_DEVICE int min(int a, int b) { return a < b ? a : b; }
  static SINTER_DEVICE bool both(bool a, bool b) { return a && b; }
  static SINTER_DEVICE bool either(bool a, bool b) { return a || b; }

  static SINTER_DEVICE float neg(float x) { return -x; }
  static SINTER_DEVICE float abs(float x) { return fabsf(x); }
  static SINTER_DEVICE float rsqrt(float x) { return rsqrtf(x); }
  static SINTER_DEVICE float relu(float x) { return keep_nan_max(x, 0.0f); }
  static SINTER_DEVICE float square(float x) { return x * x; }
  static SINTER_DEVICE float sin(float x) { return sinf(x); }
  static SINTER_DEVICE float cos(float x) { return cosf(x); }
  static SINTER_DEVICE float log1p(float x) { return log1pf(x); }
  static SINTER_DEVICE float floor(float x) { return floorf(x); }
  static SINTER_DEVICE int neg(int x) { return sub(0, x); }
  static SINTER_DEVICE int abs(int x) { return x < 0 ? neg(x) : x; }
  static SINTER_DEVICE int relu(int x) { return x > 0 ? x : 0; }
  static SINTER_DEVICE int square(int x) { return mul(x, x); }
  static SINTER_DEVICE bool invert(bool x) { return !x; }
};

struct Exact : Common {
  static SINTER_DEVICE float div(float a, float b) { return a / b; }
  static SINTER_DEVICE float exp(float x) { return expf(x); }
  static SINTER_DEVICE float log(float x) { return logf(x); }
  static SINTER_DEVICE float sqrt(float x) { return sqrtf(x); }
  static SINTER_DEVICE float tanh(float x) { return tanhf(x); }
  static SINTER_DEVICE float sigmoid(float x) { return 0.25f * four_sigmoids(x); }
  static SINTER_DEVICE float reciprocal(float x) { return 1.0f / x; }
  static SINTER_DEVICE float erf(float x) { return erff(x); }
};

struct Fast : Exact {
  static SINTER_DEVICE float div(float a, float b) { return quotient_approx(a, b); }
  static SINTER_DEVICE float exp(float x) { return exp2_approx(x * 1.4426950408889634f); }
  static SINTER_DEVICE float log(float x) { return __logf(x); }
  static SINTER_DEVICE float tanh(float x) { return tanh_approx(x); }
  // A quarter of (1 + e^-x), so that its reciprocal is a normal number wherever x times the result
  // is one.
  static SINTER_DEVICE float sigmoid(float x) {
    return 0.25f * reciprocal_approx(0.25f + exp2_approx(fmaf(x, -1.4426950408889634f, -2.0f)));
  }
  static SINTER_DEVICE float reciprocal(float x) { return whole_reciprocal_approx(x); }
};

struct BesideOne : Fast {
  // As tanhf has it where it is more than a half.
  static SINTER_DEVICE float tanh(float x) {
    const float e = exp2_approx(2.8853900817779268f * fabsf(x));
    return copysignf(fmaf(-2.0f, reciprocal_approx(1.0f + e), 1.0f), x);
  }
  static SINTER_DEVICE float erf(float x) { return erf_beside_one(x); }
  // 2 / (1 + e^-2x), with a quarter of the divisor as in sigmoid. Its relative error is small too.
  static SINTER_DEVICE float one_plus_tanh(float x) {
    return 0.5f * reciprocal_approx(0.25f + exp2_approx(fmaf(x, -2.8853900817779268f, -2.0f)));
  }
  // 4 e / (1 + e)^2 of e = e^-2|x|. Its relative error is small too.
  static SINTER_DEVICE float one_minus_tanh_square(float x) {
    const float e = exp2_approx(-2.8853900817779268f * fabsf(x));
    const float half = 2.0f * reciprocal_approx(1.0f + e);
    return e * half * half;
  }
};

// Casts between words. To s32: toward zero, saturating, NaN gives 0.
SINTER_DEVICE int to_s32(float x) { return __float2int_rz(x); }
SINTER_DEVICE int to_s32(int x) { return x; }
SINTER_DEVICE int to_s32(bool x) { return x ? 1 : 0; }
SINTER_DEVICE float to_f32(float x) { return x; }
SINTER_DEVICE float to_f32(int x) { return static_cast<float>(x); }
SINTER_DEVICE float to_f32(bool x) { return x ? 1.0f : 0.0f; }
SINTER_DEVICE bool to_pred(float x) { return x != 0.0f; }
SINTER_DEVICE bool to_pred(int x) { return x != 0; }
SINTER_DEVICE bool to_pred(bool x) { return x; }

// Reductions: join() of two partial results, and empty(), the result of no elements. The argument
// of empty() only selects the type.
struct Sum {
  template <class Word>
  static SINTER_DEVICE Word join(Word a, Word b) {
    return Common::add(a, b);
  }
  static SINTER_DEVICE float empty(float) { return 0.0f; }
  static SINTER_DEVICE int empty(int) { return 0; }
};
struct Largest {
  template <class Word>
  static SINTER_DEVICE Word join(Word a, Word b) {
    return Common::max(a, b);
  }
  static SINTER_DEVICE float empty(float) { return __uint_as_float(0xFF800000u); }
  static SINTER_DEVICE int empty(int) { return -2147483647 - 1; }
};
struct Smallest {
  template <class Word>
  static SINTER_DEVICE Word join(Word a, Word b) {
    return Common::min(a, b);
  }
  static SINTER_DEVICE float empty(float) { return __uint_as_float(0x7F800000u); }
  static SINTER_DEVICE int empty(int) { return 2147483647; }
};

// Joins all elements of a vector, as a tree. kCount is a power of two.
template <class Join, class Word, int kCount>
SINTER_DEVICE Word fold(Word (&words)[kCount]) {
#pragma unroll
  for (int half = kCount / 2; half > 0; half /= 2) {
#pragma unroll
    for (int e = 0; e < half; ++e) words[e] = Join::join(words[e], words[e + half]);
  }
  return words[0];
}

// Means. Each element is multiplied by a power of two that is at most 1 / count before it is added,
// and the sum by what is left of 1 / count, so that no sum of finite elements overflows.
SINTER_DEVICE float mean_share(long long count) {
  const u32 bits = __float_as_uint(static_cast<float>(count));
  return __uint_as_float(0x7F000000u - ((bits + 0x007FFFFFu) & 0x7F800000u));
}
SINTER_DEVICE float mean_rest(long long count) {
  return 1.0f / (mean_share(count) * static_cast<float>(count));
}
// `sum` and a share of each element of a vector, as a tree: the mean of equal elements is exact.
template <int kCount>
SINTER_DEVICE float add_shares(float sum, const float (&words)[kCount], float share) {
  if constexpr (kCount == 1) {
    return fmaf(words[0], share, sum);
  } else {
    float pairs[kCount / 2];
#pragma unroll
    for (int e = 0; e < kCount / 2; ++e)
      pairs[e] = fmaf(words[e], share, words[e + kCount / 2] * share);
    return sum + fold<Sum>(pairs);
  }
}

}  // namespace sinter
