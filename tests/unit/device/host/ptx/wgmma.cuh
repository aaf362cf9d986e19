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

}  // namespace sinter
