#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kPending>
inline void wgmma_wait() {}

template <int N, class Element, bool kATransposed, bool kBTransposed>
struct Wgmma {
  static void mma(typename Element::Sum (&d)[N / 2], u64 a, u64 b, u32 accumulate) {
    hardware::machine.Multiply<Element::kBytes>(d, a, b, !kATransposed, !kBTransposed,
                                                accumulate != 0,
                                                static_cast<int>(threadIdx.x % 128));
  }
};

template <int N, class Element, bool kBTransposed>
struct RegisterWgmma {
  static void mma(float (&d)[N / 2], const u32 (&a)[4], u64 b, u32 accumulate) {
    const int thread = static_cast<int>(threadIdx.x % 128), lane = thread % 32;
    u32 words[4][4];
    for (int t = 0; t < 4; ++t)
      for (int i = 0; i < 4; ++i)
        words[t][i] = hardware::machine.Shuffle(lane, a[i], lane / 4 * 4 + t);
    hardware::machine.Multiply(d, words, b, !kBTransposed, accumulate != 0, thread);
  }
};

// Element (row, column) of the transpose is (column, row), which lane 4 column + row / 2 holds.
inline u32 transpose_8x8(u32 pair) {
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane / 4, column = 2 * (lane % 4);
  const auto element = [&](int c) {
    const u32 word = hardware::machine.Shuffle(lane, pair, 4 * c + row / 2);
    return row % 2 == 0 ? word & 0xFFFF : word >> 16;
  };
  const u32 low = element(column), high = element(column + 1);
  return low | high << 16;
}

}  // namespace sinter
