// block 128 unit 32 vec 8 keep x4
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 4)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 32, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 32;
  const long long units = 1ll * m;
  {
  for (long long own = blockIdx.x * 4ll + static_cast<int>(threadIdx.x) / 32; own < units; own += gridDim.x * 4ll) {
    constexpr bool live = true;
    const long long u = own;
    Pack<ElementBF16, 8> kept16[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 32 + t) * 8;
      {
        kept16[j] = load_pack<ElementBF16, 8>(in0 + (u * 1024 + i));
      }
    }
    float row2 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float w17[8];
      SINTER_EACH(8) w17[e] = kept16[j][e];
      row2 = add_shares(row2, w17, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row2});
    float row6 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float v18[8];
      SINTER_EACH(8) v18[e] = Exact::sub(kept16[j][e], row2);
      float v19[8];
      SINTER_EACH(8) v19[e] = Exact::square(v18[e]);
      float w20[8];
      SINTER_EACH(8) w20[e] = v19[e];
      row6 = add_shares(row6, w20, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    const float s22 = Exact::add(row6, 0x1.4f8b58p-17f);
    const float s23 = Exact::rsqrt(s22);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float v21[8];
      SINTER_EACH(8) v21[e] = Exact::sub(kept16[j][e], row2);
      float v24[8];
      SINTER_EACH(8) v24[e] = Exact::mul(v21[e], s23);
      const auto p25 = load_pack<ElementBF16, 8>(in1 + (i));
      float v26[8];
      SINTER_EACH(8) v26[e] = Exact::mul(v24[e], p25[e]);
      const auto p27 = load_pack<ElementBF16, 8>(in2 + (i));
      float v28[8];
      SINTER_EACH(8) v28[e] = Fast::add(v26[e], p27[e]);
      float w29[8];
      SINTER_EACH(8) w29[e] = v28[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 1024 + i), w29);
      }
    }
  }
  }
}

}  // namespace sinter
