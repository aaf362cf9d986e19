// block 128 unit 64 vec 4 keep+alike x5
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 5)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 64, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 64;
  const long long units = 1ll * m;
  {
  float alike17[4][4];
  float alike19[4][4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      const auto p18 = load_pack<ElementBF16, 4>(in1 + (i));
      SINTER_EACH(4) alike17[j][e] = p18[e];
      const auto p20 = load_pack<ElementBF16, 4>(in2 + (i));
      SINTER_EACH(4) alike19[j][e] = p20[e];
      }
    }
  for (long long own = blockIdx.x * 2ll + static_cast<int>(threadIdx.x) / 64; own < units; own += gridDim.x * 2ll) {
    constexpr bool live = true;
    const long long u = own;
    Pack<ElementBF16, 4> kept16[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 64 + t) * 4;
      {
        kept16[j] = load_pack<ElementBF16, 4>(in0 + (u * 1024 + i));
      }
    }
    float row2 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      float w21[4];
      SINTER_EACH(4) w21[e] = kept16[j][e];
      row2 = add_shares(row2, w21, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row2});
    float row6 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      float v22[4];
      SINTER_EACH(4) v22[e] = Exact::sub(kept16[j][e], row2);
      float v23[4];
      SINTER_EACH(4) v23[e] = Exact::square(v22[e]);
      float w24[4];
      SINTER_EACH(4) w24[e] = v23[e];
      row6 = add_shares(row6, w24, 0x1p-10f);
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    const float s26 = Exact::add(row6, 0x1.4f8b58p-17f);
    const float s27 = Exact::rsqrt(s26);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      float v25[4];
      SINTER_EACH(4) v25[e] = Exact::sub(kept16[j][e], row2);
      float v28[4];
      SINTER_EACH(4) v28[e] = Exact::mul(v25[e], s27);
      float v29[4];
      SINTER_EACH(4) v29[e] = Exact::mul(v28[e], alike17[j][e]);
      float v30[4];
      SINTER_EACH(4) v30[e] = Fast::add(v29[e], alike19[j][e]);
      float w31[4];
      SINTER_EACH(4) w31[e] = v30[e];
      if (live) store_pack<ElementBF16, 4>(out0 + (u * 1024 + i), w31);
      }
    }
  }
  }
}

}  // namespace sinter
