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

}  // namespace sinter
