// What a thread of an all-reduce does with its chunk: elements from words, sums, the residual,
// rounding.
#pragma once
#include "ptx/element.cuh"
#include "ranks/room.cuh"

namespace sinter {

// The elements of a word, and back.
template <class Element>
struct WordOf {
  static constexpr int kElements = 2;
  static SINTER_DEVICE float at(u32 word, int i) {
    return i == 0 ? Element::low(word) : Element::high(word);
  }
  static SINTER_DEVICE u32 of(const float* v) { return Element::pack(v[0], v[1]); }
};
template <>
struct WordOf<Float32> {
  static constexpr int kElements = 1;
  static SINTER_DEVICE float at(u32 word, int) { return __uint_as_float(word); }
  static SINTER_DEVICE u32 of(const float* v) { return __float_as_uint(v[0]); }
};

// The i-th of 4 kWords words.
template <int kWords>
SINTER_DEVICE u32 word_at(const Word4 (&v)[kWords], int i) {
  const Word4& four = v[i / 4];
  return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
}

// Sums of all threads of the block, in one order whatever the timing. All threads call.
template <int kThreads>
SINTER_DEVICE float block_sum(float x) {
  __shared__ float warps[kThreads / 32];
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, lanes);
  __syncthreads();  // the last sum was read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += warps[w];
  return sum;
}

// Config: Element of x; kRounded: the sum is rounded to Result before the residual is added, else
// once behind it; kResidual; Result; kNormRounded: a row is rounded to it before its gammas.
template <class Config>
struct AllReduceValues {
  using X = WordOf<typename Config::Element>;
  using Y = WordOf<typename Config::Result>;
  // Of a chunk: at least 16 bytes of either type.
  static constexpr int kElements = 4 * (X::kElements > Y::kElements ? X::kElements : Y::kElements);
  static constexpr int kIn = kElements / X::kElements / 4, kOut = kElements / Y::kElements / 4;

  // A chunk of Result whose i-th element is value(i). It may read what `v` held.
  template <class Value>
  static SINTER_DEVICE void make(Word4 (&v)[kOut], Value&& value) {
    u32 words[4 * kOut];
#pragma unroll
    for (int w = 0; w < 4 * kOut; ++w) {
      float x[Y::kElements];
#pragma unroll
      for (int i = 0; i < Y::kElements; ++i) x[i] = value(w * Y::kElements + i);
      words[w] = Y::of(x);
    }
#pragma unroll
    for (int j = 0; j < kOut; ++j)
      v[j] = {words[4 * j], words[4 * j + 1], words[4 * j + 2], words[4 * j + 3]};
  }
  // The i-th element of a chunk of Result.
  static SINTER_DEVICE float at(const Word4 (&v)[kOut], int i) {
    return Y::at(word_at(v, i / Y::kElements), i % Y::kElements);
  }

  static SINTER_DEVICE void load_x(const void* x, u64 chunk, Word4 (&v)[kIn]) {
#pragma unroll
    for (int j = 0; j < kIn; ++j) v[j] = static_cast<const Word4*>(x)[chunk * kIn + j];
  }
  // Where it stands in the text: not behind a branch that follows.
  static SINTER_DEVICE void load_x_now(const void* x, u64 chunk, Word4 (&v)[kIn]) {
#pragma unroll
    for (int j = 0; j < kIn; ++j) v[j] = load_now(static_cast<const Word4*>(x) + chunk * kIn + j);
  }
  static SINTER_DEVICE void load_residual(const void* residual, u64 chunk, Word4 (&v)[kOut]) {
    if constexpr (Config::kResidual) {
#pragma unroll
      for (int j = 0; j < kOut; ++j) v[j] = static_cast<const Word4*>(residual)[chunk * kOut + j];
    }
  }

  static SINTER_DEVICE void add(const Word4 (&v)[kIn], bool first, float (&total)[kElements]) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float x = X::at(word_at(v, i / X::kElements), i % X::kElements);
      total[i] = first ? x : total[i] + x;
    }
  }

  // The sum as Result.
  static SINTER_DEVICE void round(const float (&total)[kElements], Word4 (&result)[kOut]) {
    make(result, [&](int i) { return total[i]; });
  }

  // To a rounded sum, `result`.
  static SINTER_DEVICE void add_own(const Word4 (&residual)[kOut], Word4 (&result)[kOut]) {
    if constexpr (Config::kResidual)
      make(result, [&](int i) { return at(result, i) + at(residual, i); });
  }

  // To the sum before it is rounded, unless Config::kRounded; `result` is the rounded one.
  static SINTER_DEVICE void add_residual(const float (&total)[kElements],
                                         const Word4 (&residual)[kOut], Word4 (&result)[kOut]) {
    if constexpr (Config::kRounded || !Config::kResidual)
      add_own(residual, result);
    else
      make(result, [&](int i) { return total[i] + at(residual, i); });
  }

  static SINTER_DEVICE void store(void* out, u64 chunk, const Word4 (&result)[kOut]) {
#pragma unroll
    for (int j = 0; j < kOut; ++j) static_cast<Word4*>(out)[chunk * kOut + j] = result[j];
  }

  // The sum of the squares of a chunk's elements.
  static SINTER_DEVICE float square(const Word4 (&v)[kOut]) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum += at(v, i) * at(v, i);
    return sum;
  }

  // Of the row's chunk.
  static SINTER_DEVICE void load_gamma(const void* gamma, int chunk, Word4 (&v)[kOut]) {
#pragma unroll
    for (int j = 0; j < kOut; ++j) v[j] = static_cast<const Word4*>(gamma)[chunk * kOut + j];
  }
  // Each element times `factor`, which may be rounded, and its column's gamma.
  static SINTER_DEVICE void scale(const Word4 (&gammas)[kOut], float factor, Word4 (&v)[kOut]) {
    if constexpr (Config::kNormRounded) {
      make(v, [&](int i) { return at(v, i) * factor; });
      make(v, [&](int i) { return at(v, i) * at(gammas, i); });
    } else {
      make(v, [&](int i) { return at(v, i) * factor * at(gammas, i); });
    }
  }
};

}  // namespace sinter
