// What a thread of an all-reduce does with its chunk: elements from words, sums, rounding, and the
// programs after sums and norms.
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

// A program of Config: element-wise ops on a value of f32, and on its leaves, of Result.
//   kFirst, kLeaves    its leaves are args.leaves[kFirst + l], l below kLeaves
//   kMatrices          bit l: leaf l is a matrix, not a vector of columns
//   kRounded           the value is rounded to Result before
//   apply(y, leaf)     the result for the value y; leaf(l) is the element of leaf l
struct NoProgram {
  static constexpr int kFirst = 0, kLeaves = 0, kMatrices = 0;
  static constexpr bool kApplies = false, kRounded = true;
};

// Config: Element of x; Result; Program, of sums; NormProgram, of normed rows.
template <class Config>
struct AllReduceValues {
  using X = WordOf<typename Config::Element>;
  using Y = WordOf<typename Config::Result>;
  // Of a chunk: at least 16 bytes of either type.
  static constexpr int kElements = 4 * (X::kElements > Y::kElements ? X::kElements : Y::kElements);
  static constexpr int kIn = kElements / X::kElements / 4, kOut = kElements / Y::kElements / 4;
  // The vectors of a program's leaves.
  template <class Program>
  static constexpr int kLeaves = Program::kLeaves > 0 ? Program::kLeaves* kOut : kOut;

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
  // The i-th element of chunks of Result.
  template <int kWords>
  static SINTER_DEVICE float at(const Word4 (&v)[kWords], int i) {
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

  static SINTER_DEVICE void add(const Word4 (&v)[kIn], bool first, float (&total)[kElements]) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float x = X::at(word_at(v, i / X::kElements), i % X::kElements);
      total[i] = first ? x : total[i] + x;
    }
  }

  // Results of value(i), or, if the program rounds first, of the rounded values in `v`.
  template <class Program, class Value>
  static SINTER_DEVICE void apply(Value&& value, const Word4 (&leaves)[kLeaves<Program>],
                                  Word4 (&v)[kOut]) {
    if constexpr (Program::kApplies)
      make(v, [&](int i) {
        return Program::apply(Program::kRounded ? at(v, i) : value(i),
                              [&](int leaf) { return at(leaves, leaf * kElements + i); });
      });
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

  // Each element times the row's factor, and the program of norms.
  static SINTER_DEVICE void scale(const Word4 (&leaves)[kLeaves<typename Config::NormProgram>],
                                  float factor, Word4 (&v)[kOut]) {
    const auto normed = [&](int i) { return at(v, i) * factor; };
    if constexpr (Config::NormProgram::kRounded) make(v, normed);
    apply<typename Config::NormProgram>(normed, leaves, v);
  }
};

}  // namespace sinter
