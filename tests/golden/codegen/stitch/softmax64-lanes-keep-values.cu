// block 128 unit 16 vec 4 keep+values x9
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 9)
sinter_stitch(const u16* __restrict__ in0,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 16, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 16;
  const long long units = 1ll * m;
  {
  for (long long base = blockIdx.x * 8ll; base < units; base += gridDim.x * 8ll) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 16;
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    Pack<ElementBF16, 4> kept11[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 4;
      {
        kept11[j] = load_pack<ElementBF16, 4>(in0 + (u * 64 + i));
      }
    }
    float kept12[1][4];
    float row2 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 4;
      {
      float w13[4];
      SINTER_EACH(4) w13[e] = kept11[j][e];
      row2 = Largest::join<float>(row2, fold<Largest>(w13));
      }
    }
    group.reduce(Partial<Largest, float>{row2});
    float row6 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 4;
      {
      float v14[4];
      SINTER_EACH(4) v14[e] = Exact::sub(kept11[j][e], row2);
      float v15[4];
      SINTER_EACH(4) v15[e] = Fast::exp(v14[e]);
      SINTER_EACH(4) kept12[j][e] = v15[e];
      float w16[4];
      SINTER_EACH(4) w16[e] = v15[e];
      row6 = Sum::join<float>(row6, fold<Sum>(w16));
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 4;
      {
      float v17[4];
      SINTER_EACH(4) v17[e] = Fast::div(kept12[j][e], row6);
      float w18[4];
      SINTER_EACH(4) w18[e] = v17[e];
      if (live) store_pack<ElementBF16, 4>(out0 + (u * 64 + i), w18);
      }
    }
  }
  }
}

}  // namespace sinter
