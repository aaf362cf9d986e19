// wgmma: its ordering instructions, and the declaration of the product. Codegen writes the
// specialisations that a kernel uses, one for each N, element type and major-ness of both operands,
// because the instruction's list of registers depends on N.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SINTER_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
SINTER_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// m64, nN, 32 bytes of K: d += A B, or d = A B where `accumulate` is 0. A and B are given by
// shared-memory descriptors.
//   static SINTER_DEVICE void mma(Element::Sum (&d)[N / 2], u64 a, u64 b, u32 accumulate);
template <int N, class Element, bool kATransposed, bool kBTransposed>
struct Wgmma;

// The same with A in registers: four words of each thread, two elements each, laid out as the
// accumulators of two column groups are.
//   static SINTER_DEVICE void mma(float (&d)[N / 2], const u32 (&a)[4], u64 b, u32 accumulate);
template <int N, class Element, bool kBTransposed>
struct RegisterWgmma;

// Transposes of 8x8 matrices of 16-bit elements that a warp holds.

// Lane l holds element (l / 4, 2 (l % 4)) and the one to its right, and gets those of the
// transpose. All lanes call.
SINTER_DEVICE u32 transpose_8x8(u32 pair) {
  u32 turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

}  // namespace sinter
