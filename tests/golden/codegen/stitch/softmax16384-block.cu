// block 128 unit 128 vec 4 x9
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 9)
sinter_stitch(const u16* __restrict__ in0,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 128, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 128;
  const long long units = 1ll * m;
  {
  for (long long base = blockIdx.x * 1ll; base < units; base += gridDim.x * 1ll) {
    constexpr bool live = true;
    const long long u = base;
    float row2 = Largest::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 32; ++j) {
      const int i = (j * 128 + t) * 4;
      {
      const auto p11 = load_pack<ElementBF16, 4>(in0 + (u * 16384 + i));
      float w12[4];
      SINTER_EACH(4) w12[e] = p11[e];
      row2 = Largest::join<float>(row2, fold<Largest>(w12));
      }
    }
    group.reduce(Partial<Largest, float>{row2});
    float row6 = Sum::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 32; ++j) {
      const int i = (j * 128 + t) * 4;
      {
      const auto p13 = load_pack<ElementBF16, 4>(in0 + (u * 16384 + i));
      float v14[4];
      SINTER_EACH(4) v14[e] = Exact::sub(p13[e], row2);
      float v15[4];
      SINTER_EACH(4) v15[e] = Fast::exp(v14[e]);
      float w16[4];
      SINTER_EACH(4) w16[e] = v15[e];
      row6 = Sum::join<float>(row6, fold<Sum>(w16));
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    #pragma unroll 4
    for (int j = 0; j < 32; ++j) {
      const int i = (j * 128 + t) * 4;
      {
      const auto p17 = load_pack<ElementBF16, 4>(in0 + (u * 16384 + i));
      float v18[4];
      SINTER_EACH(4) v18[e] = Exact::sub(p17[e], row2);
      float v19[4];
      SINTER_EACH(4) v19[e] = Fast::exp(v18[e]);
      float v20[4];
      SINTER_EACH(4) v20[e] = Fast::div(v19[e], row6);
      float w21[4];
      SINTER_EACH(4) w21[e] = v20[e];
      if (live) store_pack<ElementBF16, 4>(out0 + (u * 16384 + i), w21);
      }
    }
  }
  }
}

}  // namespace sinter
