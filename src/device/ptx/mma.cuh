// What feeds and runs the tensor cores of every chip from sm_80 on: groups of copies to shared
// memory (copy_async), ldmatrix, and mma.sync of each element.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/packed.cuh"

namespace sinter {

// Closes the group of this thread's copies since the last one. wait_copies leaves the kPending
// newest groups under way; the thread then sees what it copied, others after a barrier.
SINTER_DEVICE void commit_copies() {
  jitter();
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
SINTER_DEVICE void wait_copies() {
  jitter();
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements, or 8 x 16 of 8-bit ones. Lanes 8i to 8i + 7 give the
// addresses of the rows of matrix i, 16 bytes each. A lane gets, in to[i], the 4 bytes at 4 *
// (lane % 4) of row lane / 4; kTransposed, of 16-bit elements: two neighbours of column lane / 4.
template <bool kTransposed>
SINTER_DEVICE void load_matrices(u32 (&to)[4], u32 address) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  }
}

// Adds 16 rows times 8 columns over 32 bytes of K to d, whose places are Packed::mma's. The four
// words of a are, 8 rows by 16 bytes each: the upper rows, the lower rows, and both again 16 bytes
// on; b0 and b1 are 16 bytes of K of the columns each.
template <class Element>
SINTER_DEVICE void multiply_add(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  Packed<Element>::mma(d, a[0], a[1], a[2], a[3], b0, b1);
}
#if __CUDA_ARCH__ >= 890
template <>
SINTER_DEVICE void multiply_add<FloatE4M3>(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
template <class Element>
SINTER_DEVICE void multiply_add(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace sinter
