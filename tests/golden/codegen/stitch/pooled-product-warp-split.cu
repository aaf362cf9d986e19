// block 128 unit 32 vec 4 split 4 x9
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 9)
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
  const long long units = 256ll;
  {
  for (long long base = blockIdx.x * 4ll; base < units; base += gridDim.x * 4ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base + static_cast<int>(threadIdx.x) / 32);
    __builtin_assume(u >= 0);
    float row6 = Largest::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 4;
      if (i < 100) {
      const auto p21 = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
      const auto p22 = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      float v23[4];
      SINTER_EACH(4) v23[e] = Exact::add(p21[e], p22[e]);
      float w24[4];
      SINTER_EACH(4) w24[e] = v23[e];
      row6 = Largest::join<float>(row6, fold<Largest>(w24));
      }
    }
    group.reduce(Partial<Largest, float>{row6});
    float row10 = Sum::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 4;
      if (i < 100) {
      const auto p25 = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
      const auto p26 = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      float v27[4];
      SINTER_EACH(4) v27[e] = Exact::add(p25[e], p26[e]);
      float v28[4];
      SINTER_EACH(4) v28[e] = Exact::sub(v27[e], row6);
      float v29[4];
      SINTER_EACH(4) v29[e] = Fast::exp(v28[e]);
      float w30[4];
      SINTER_EACH(4) w30[e] = v29[e];
      row10 = Sum::join<float>(row10, fold<Sum>(w30));
      }
    }
    group.reduce(Partial<Sum, float>{row10});
    #pragma unroll 4
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 8 + t / 4) * 4;
      if (i < 36) {
      float v40[4];
      SINTER_EACH(4) v40[e] = Sum::empty(float{});
      #pragma unroll 16
      for (int k31t = 0; k31t < 25; ++k31t) {
        const int k31 = k31t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s32 = ElementBF16::word(in0[(u * 100 + k31)]);
        const float s33 = ElementBF16::word(in1[(u * 100 + k31)]);
        const float s34 = Exact::add(s32, s33);
        const float s35 = Exact::sub(s34, row6);
        const float s36 = Fast::exp(s35);
        const float s37 = Fast::div(s36, row10);
        const auto p38 = load_pack<ElementBF16, 4>(in2 + (u * 3600 + i + k31 * 36));
        float v39[4];
        SINTER_EACH(4) v39[e] = s37 * p38[e];
        SINTER_EACH(4) v40[e] = Sum::join<float>(v40[e], v39[e]);
      }
      SINTER_EACH(4) v40[e] = join_lanes<Sum, 4>(v40[e]);
      float w41[4];
      SINTER_EACH(4) w41[e] = v40[e];
      if (live && static_cast<int>(threadIdx.x) % 4 == 0) store_pack<ElementBF16, 4>(out0 + (u * 36 + i), w41);
      }
    }
  }
  }
}

}  // namespace sinter
