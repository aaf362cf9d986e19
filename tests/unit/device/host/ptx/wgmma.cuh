#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kPending>
inline void wgmma_wait() {}

template <int N, class Element, bool kATransposed, bool kBTransposed>
struct Wgmma {
  static void mma(float (&d)[N / 2], u64 a, u64 b, u32 accumulate) {
    hardware::machine.Multiply<Element::kBytes>(d, a, b, !kATransposed, !kBTransposed,
                                                accumulate != 0,
                                                static_cast<int>(threadIdx.x % 128));
  }
};

}  // namespace sinter
