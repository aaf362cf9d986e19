// wgmma: ordering instructions and the operation's declaration. Codegen writes the specialisations
// that a kernel uses, one per (N, element type, major-ness of both operands), because the operand
// list of the instruction depends on N.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
SINTER_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
SINTER_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// m64 nN k16, f32 accumulation: d += A B, or d = A B where `accumulate` is 0. A and B by
// shared-memory descriptor.
//   static SINTER_DEVICE void mma(float (&d)[N / 2], u64 a, u64 b, u32 accumulate);
template <int N, class Element, bool kATransposed, bool kBTransposed>
struct Wgmma;

}  // namespace sinter
