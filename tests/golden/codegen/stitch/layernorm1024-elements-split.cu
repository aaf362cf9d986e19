// block 128 vec 8 chunks 1 split 16 x6
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 6)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  {
  for (long long base = blockIdx.x * 64ll, count = 1024ll * m; base < count;
       base += gridDim.x * 64ll) {
    constexpr bool live = true;
    Pack<ElementBF16, 8> kept18[1];
    Pack<ElementBF16, 8> kept19[1];
    Pack<ElementBF16, 8> kept20[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const long long n = (base + (j * 8 + static_cast<int>(threadIdx.x) / 16) * 8);
      __builtin_assume(n >= 0);
      {
        kept18[j] = load_pack<ElementBF16, 8>(in0 + (n));
        kept19[j] = load_pack<ElementBF16, 8>(in1 + (((n) % 1024)));
        kept20[j] = load_pack<ElementBF16, 8>(in2 + (((n) % 1024)));
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const long long n = (base + (j * 8 + static_cast<int>(threadIdx.x) / 16) * 8);
      __builtin_assume(n >= 0);
      {
      float v23;
      v23 = Sum::empty(float{});
      #pragma unroll 16
      for (int k21t = 0; k21t < 64; ++k21t) {
        const int k21 = k21t * 16 + static_cast<int>(threadIdx.x) % 16;
        const float s22 = ElementBF16::word(in0[(((n) / 1024) * 1024 + k21)]);
        v23 = fmaf(s22, 0x1p-10f, v23);
      }
      v23 = join_lanes<Sum, 16>(v23);
      float v24[8];
      SINTER_EACH(8) v24[e] = Exact::sub(kept18[j][e], v23);
      float v29;
      v29 = Sum::empty(float{});
      #pragma unroll 16
      for (int k25t = 0; k25t < 64; ++k25t) {
        const int k25 = k25t * 16 + static_cast<int>(threadIdx.x) % 16;
        const float s26 = ElementBF16::word(in0[(((n) / 1024) * 1024 + k25)]);
        const float s27 = Exact::sub(s26, v23);
        const float s28 = Exact::square(s27);
        v29 = fmaf(s28, 0x1p-10f, v29);
      }
      v29 = join_lanes<Sum, 16>(v29);
      const float s30 = Exact::add(v29, 0x1.4f8b58p-17f);
      const float s31 = Exact::rsqrt(s30);
      float v32[8];
      SINTER_EACH(8) v32[e] = Exact::mul(v24[e], s31);
      float v33[8];
      SINTER_EACH(8) v33[e] = Exact::mul(v32[e], kept19[j][e]);
      float v34[8];
      SINTER_EACH(8) v34[e] = Fast::add(v33[e], kept20[j][e]);
      float w35[8];
      SINTER_EACH(8) w35[e] = v34[e];
      if (live && static_cast<int>(threadIdx.x) % 16 == 0) store_pack<ElementBF16, 8>(out0 + (n), w35);
      }
    }
  }
  }
}

}  // namespace sinter
