// Exchange among the four lanes that hold a row of accumulators, for 16-byte stores.
#pragma once
#include "ptx/memory.cuh"

namespace sinter {

// Lane q of each quad holds in w[0..3] its two columns of four groups of eight columns. It gets the
// eight columns of group q.
SINTER_DEVICE Word4 quad_transpose(const u32 (&w)[4]) {
  const int q = threadIdx.x % 4;
  const bool odd = q & 1, high = q & 2;
  const u32 s0 = __shfl_xor_sync(0xFFFFFFFFu, odd ? w[0] : w[1], 1),
            s1 = __shfl_xor_sync(0xFFFFFFFFu, odd ? w[2] : w[3], 1);
  const u32 a0 = odd ? s0 : w[0], a1 = odd ? w[1] : s0, a2 = odd ? s1 : w[2], a3 = odd ? w[3] : s1;
  const u32 t0 = __shfl_xor_sync(0xFFFFFFFFu, high ? a0 : a2, 2),
            t1 = __shfl_xor_sync(0xFFFFFFFFu, high ? a1 : a3, 2);
  return high ? Word4{t0, t1, a2, a3} : Word4{a0, a1, t0, t1};
}

// Words of four neighbouring column groups of a row as memory has them, of accumulators, or the
// other way round: lane q has the eight columns of group q there. Permuted columns lie alike.
template <class P>
SINTER_DEVICE Word4 as_stored(const u32 (&w)[4]) {
  if constexpr (P::kPermuted)
    return Word4{w[0], w[1], w[2], w[3]};
  else
    return quad_transpose(w);
}

}  // namespace sinter
