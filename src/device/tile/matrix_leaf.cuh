// The matrix that an epilogue reads beside the accumulators, such as a residual: row-major, of the
// result's extents. It may be the result: what a thread stores, its quad has read before.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "tile/activation.cuh"
#include "tile/product.cuh"
#include "tile/quad.cuh"

namespace sinter {

// In a kernel without a matrix.
struct NoMatrix {
  using Element = Float32;
  using Pair = FloatPair;
  static constexpr bool kPresent = false, kQuads = false;
  static SINTER_DEVICE NoMatrix of(const void*, long long, int) { return {}; }
};

// How an element of the matrix is added to a result, where no program says what becomes of both.
// kRounds: the result is rounded first, because the chain casts it. Activation: of the sum.
template <bool kRounds, class Activation = Identity>
struct AddMatrix {
  template <class Result>
  static SINTER_DEVICE void add(float& low, float& high, float low_element, float high_element) {
    if constexpr (kRounds) {
      const auto rounded = Result::pack(low, high);
      low = Result::low(rounded);
      high = Result::high(rounded);
    }
    low = Activation::apply(low + low_element);
    high = Activation::apply(high + high_element);
  }
};

// kAligned: rows and columns allow 16-byte loads; else elements are loaded one by one. Outside the
// matrix nothing is read, and zeros are given.
template <class Element_, int kColumns, bool kAligned, class Added_ = AddMatrix<false>>
struct MatrixLeaf {
  using Element = Element_;
  using Added = Added_;
  using Stored = typename Element::Stored;
  using Pair = typename Element::Pair;
  static constexpr bool kPresent = true;
  static constexpr bool kQuads = kAligned && Element::kBytes == 2;  // 8 columns are one load
  const Stored* data;
  long long stride;  // elements between rows
  int rows;          // rows that exist

  static SINTER_DEVICE MatrixLeaf of(const void* data, long long stride, int rows) {
    return {static_cast<const Stored*>(data), stride, rows};
  }

  SINTER_DEVICE float one(int row, int column) const {
    return exists(row, column) ? Element::unpack(data[row * stride + column]) : 0.0f;
  }
  // Two columns from `column`, an even number.
  SINTER_DEVICE Pair pair(int row, int column) const {
    if (!exists(row, column)) return {};
    const Stored* p = data + row * stride + column;
    if constexpr (kAligned) return *reinterpret_cast<const Pair*>(p);
    return Element::join(p[0], column + 1 < kColumns ? p[1] : Stored{});
  }
  // Eight columns from `column`, a multiple of 8.
  SINTER_DEVICE void eight(int row, int column, Pair (&pairs)[4]) const {
    constexpr int kLoaded = 16 / int{sizeof(Pair)};  // pairs of 16 bytes
#pragma unroll
    for (int i = 0; i < 4; i += kLoaded) {
      if constexpr (kAligned) {
        union {
          Word4 words;
          Pair pairs[kLoaded];
        } loaded = {};
        if (exists(row, column + 2 * i))
          loaded.words = *reinterpret_cast<const Word4*>(data + row * stride + column + 2 * i);
#pragma unroll
        for (int j = 0; j < kLoaded; ++j) pairs[i + j] = loaded.pairs[j];
      } else {
#pragma unroll
        for (int j = 0; j < kLoaded; ++j) pairs[i + j] = pair(row, column + 2 * (i + j));
      }
    }
  }
  // Prefetches into L2 what is loaded later.
  SINTER_DEVICE void fetch(int row, int column) const {
    if (exists(row, column)) prefetch_l2(data + row * stride + column);
  }

 private:
  SINTER_DEVICE bool exists(int row, int column) const { return row < rows && column < kColumns; }
};

// The matrix beside a thread's accumulators. A step is four column groups of one of its two rows:
// the upper one, then the lower, then the next four groups. As many steps are in registers as
// TermWindow leaves for a matrix; what comes later is in L2 when it is loaded.
template <class Config, class P, class Matrix_>
class HeldMatrix {
 public:
  using Matrix = Matrix_;
  using Pair = typename Matrix::Pair;
  // Called before the product.
  SINTER_DEVICE HeldMatrix(const Matrix& matrix, int row, int column, WarpgroupPlace place)
      : matrix_(matrix), row_(row), column_(column + place.n * P::kHalf), place_(place) {
    if constexpr (Matrix::kPresent) {
#pragma unroll
      for (int step = 0; step < kHeld; ++step) load(step);
      asm volatile("" ::: "memory");  // not to be loaded where they are used
#pragma unroll
      for (int begin = kHeld / 2 * 4; begin < P::kGroups; begin += 4) {
        const int g = begin + place.thread % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (g < P::kGroups) matrix.fetch(row_of(half), column_ + 8 * g);
      }
    }
  }
  // Two columns of each group of `step`, as accumulators. All lanes call.
  SINTER_DEVICE void take(int step, Pair (&pairs)[4]) const {
    if constexpr (Matrix::kPresent) {
      const Pair(&held)[4] = held_[step % kHeld];
      if constexpr (Matrix::kQuads) {
        if (in_quads(step)) {
          const Word4 v = as_stored<P>(held);
          pairs[0] = v.x, pairs[1] = v.y, pairs[2] = v.z, pairs[3] = v.w;
          return;
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = held[i];
    }
  }
  // `step` is not used any more: a later one takes its place.
  SINTER_DEVICE void release(int step) {
    if constexpr (Matrix::kPresent)
      if (step + kHeld < kSteps) load(step + kHeld);
  }

 private:
  static constexpr int kSteps = 2 * ceil_div(P::kGroups, 4);
  static constexpr int kStepWords = 4 * int{sizeof(Pair)} / 4;
  // Elements that are loaded one by one need registers meanwhile, which wide tiles do not have.
  static constexpr bool kWide = held_matrix_words(P::kGroups) < 2 * P::kGroups;
  static constexpr int kFit =
      held_matrix_words(P::kGroups) / (kWide && !Matrix::kQuads ? 2 : 1) / kStepWords;
  static constexpr int kHeld = kFit < 1 ? 1 : kFit < kSteps ? kFit : kSteps;

  // Whether a step is held as memory has it: lane q of a quad the eight columns of group q.
  static SINTER_DEVICE bool in_quads(int step) {
    return Matrix::kQuads && step / 2 * 4 + 4 <= P::kGroups;
  }
  // The row of the matrix; one behind its last where the tile has no such row.
  SINTER_DEVICE int row_of(int half) const {
    const int tile_row = place_.m * kWarpgroupRows + accumulator_row(place_.thread) + 8 * half;
    return tile_row < Config::kBlockM ? row_ + tile_row : matrix_.rows;
  }
  SINTER_DEVICE void load(int step) {
    const int begin = step / 2 * 4, row = row_of(step % 2);
    if (in_quads(step)) {
      matrix_.eight(row, column_ + 8 * (begin + place_.thread % 4), held_[step % kHeld]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4 && begin + i < P::kGroups; ++i)
      held_[step % kHeld][i] =
          matrix_.pair(row, column_ + P::pair_column(place_.thread, begin + i));
  }

  const Matrix& matrix_;
  const int row_, column_;
  const WarpgroupPlace place_;
  Pair held_[kHeld][4];
};

}  // namespace sinter
