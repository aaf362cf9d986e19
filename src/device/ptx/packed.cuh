// Arithmetic of two elements of 16 bits in a word, and mma.sync of such elements. Results are
// rounded to nearest even; subnormal numbers are kept.
#pragma once
#include "ptx/element.cuh"

namespace sinter {

// Packed<Element>: fma, mul and add of both halves; mma adds a 16 x 16 tile times a 16 x 8 tile to
// a 16 x 8 tile of f32. A lane of a warp, with g = lane / 4 and t = lane % 4, has of A: rows g
// (a[0], a[2]) and g + 8 (a[1], a[3]), columns 2t and 2t + 1 (a[0], a[1]), and those 8 further
// (a[2], a[3]). Of B it has column g, rows 2t and 2t + 1 in b0, and those 8 further in b1. Of D it
// has columns 2t and 2t + 1 of row g (d[0], d[1]) and of row g + 8 (d[2], d[3]).
template <class Element>
struct Packed;

#define SINTER_PACKED(ELEMENT, TYPE)                                                               \
  template <>                                                                                      \
  struct Packed<ELEMENT> {                                                                         \
    static SINTER_DEVICE u32 fma(u32 a, u32 b, u32 c) {                                            \
      u32 r;                                                                                       \
      asm("fma.rn." TYPE "x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));                 \
      return r;                                                                                    \
    }                                                                                              \
    static SINTER_DEVICE u32 mul(u32 a, u32 b) {                                                   \
      u32 r;                                                                                       \
      asm("mul.rn." TYPE "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                             \
      return r;                                                                                    \
    }                                                                                              \
    static SINTER_DEVICE u32 add(u32 a, u32 b) {                                                   \
      u32 r;                                                                                       \
      asm("add.rn." TYPE "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                             \
      return r;                                                                                    \
    }                                                                                              \
    static SINTER_DEVICE void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                   \
          ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                   \
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                         \
          : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                 \
    }                                                                                              \
  };
SINTER_PACKED(BFloat16, "bf16")
SINTER_PACKED(Float16, "f16")
#undef SINTER_PACKED

}  // namespace sinter
