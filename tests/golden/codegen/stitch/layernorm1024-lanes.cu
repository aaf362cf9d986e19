// block 128 unit 8 vec 8 x4
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
  using Group = UnitGroup<128, 8, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 8;
  const long long units = 1ll * m;
  {
  for (long long base = blockIdx.x * 16ll; base < units; base += gridDim.x * 16ll) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 8;
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    float row2 = Sum::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 16; ++j) {
      const int i = (j * 8 + t) * 8;
      {
      const auto p16 = load_pack<ElementBF16, 8>(in0 + (u * 1024 + i));
      float w17[8];
      SINTER_EACH(8) w17[e] = p16[e];
      row2 = add_shares(row2, w17, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row2});
    float row6 = Sum::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 16; ++j) {
      const int i = (j * 8 + t) * 8;
      {
      const auto p18 = load_pack<ElementBF16, 8>(in0 + (u * 1024 + i));
      float v19[8];
      SINTER_EACH(8) v19[e] = Exact::sub(p18[e], row2);
      float v20[8];
      SINTER_EACH(8) v20[e] = Exact::square(v19[e]);
      float w21[8];
      SINTER_EACH(8) w21[e] = v20[e];
      row6 = add_shares(row6, w21, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    const float s24 = Exact::add(row6, 0x1.4f8b58p-17f);
    const float s25 = Exact::rsqrt(s24);
    #pragma unroll 4
    for (int j = 0; j < 16; ++j) {
      const int i = (j * 8 + t) * 8;
      {
      const auto p22 = load_pack<ElementBF16, 8>(in0 + (u * 1024 + i));
      float v23[8];
      SINTER_EACH(8) v23[e] = Exact::sub(p22[e], row2);
      float v26[8];
      SINTER_EACH(8) v26[e] = Exact::mul(v23[e], s25);
      const auto p27 = load_pack<ElementBF16, 8>(in1 + (i));
      float v28[8];
      SINTER_EACH(8) v28[e] = Exact::mul(v26[e], p27[e]);
      const auto p29 = load_pack<ElementBF16, 8>(in2 + (i));
      float v30[8];
      SINTER_EACH(8) v30[e] = Fast::add(v28[e], p29[e]);
      float w31[8];
      SINTER_EACH(8) w31[e] = v30[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 1024 + i), w31);
      }
    }
  }
  }
}

}  // namespace sinter
