// block 128 unit 128 vec 1 split 4 keep x10
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 10)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 128, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 128;
  const long long units = 256ll;
  {
  for (long long base = blockIdx.x * 1ll; base < units; base += gridDim.x * 1ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base);
    __builtin_assume(u >= 0);
    Pack<ElementBF16, 1> kept21[1];
    Pack<ElementBF16, 1> kept22[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 128 + t) * 1;
      if (i < 100) {
        kept21[j] = load_pack<ElementBF16, 1>(in0 + (u * 100 + i));
        kept22[j] = load_pack<ElementBF16, 1>(in1 + (u * 100 + i));
      }
    }
    float row6 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 128 + t) * 1;
      if (i < 100) {
      float v23[1];
      SINTER_EACH(1) v23[e] = Exact::add(kept21[j][e], kept22[j][e]);
      float w24[1];
      SINTER_EACH(1) w24[e] = v23[e];
      row6 = Largest::join<float>(row6, fold<Largest>(w24));
      }
    }
    group.reduce(Partial<Largest, float>{row6});
    float row10 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 128 + t) * 1;
      if (i < 100) {
      float v25[1];
      SINTER_EACH(1) v25[e] = Exact::add(kept21[j][e], kept22[j][e]);
      float v26[1];
      SINTER_EACH(1) v26[e] = Exact::sub(v25[e], row6);
      float v27[1];
      SINTER_EACH(1) v27[e] = Fast::exp(v26[e]);
      float w28[1];
      SINTER_EACH(1) w28[e] = v27[e];
      row10 = Sum::join<float>(row10, fold<Sum>(w28));
      }
    }
    group.reduce(Partial<Sum, float>{row10});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t / 4) * 1;
      if (i < 36) {
      float v38[1];
      SINTER_EACH(1) v38[e] = Sum::empty(float{});
      #pragma unroll 16
      for (int k29t = 0; k29t < 25; ++k29t) {
        const int k29 = k29t * 4 + static_cast<int>(threadIdx.x) % 4;
        const float s30 = ElementBF16::word(in0[(u * 100 + k29)]);
        const float s31 = ElementBF16::word(in1[(u * 100 + k29)]);
        const float s32 = Exact::add(s30, s31);
        const float s33 = Exact::sub(s32, row6);
        const float s34 = Fast::exp(s33);
        const float s35 = Fast::div(s34, row10);
        const auto p36 = load_pack<ElementBF16, 1>(in2 + (u * 3600 + i + k29 * 36));
        float v37[1];
        SINTER_EACH(1) v37[e] = Fast::mul(s35, p36[e]);
        SINTER_EACH(1) v38[e] = Sum::join<float>(v38[e], v37[e]);
      }
      SINTER_EACH(1) v38[e] = join_lanes<Sum, 4>(v38[e]);
      float w39[1];
      SINTER_EACH(1) w39[e] = v38[e];
      if (live && static_cast<int>(threadIdx.x) % 4 == 0) store_pack<ElementBF16, 1>(out0 + (u * 36 + i), w39);
      }
    }
  }
  }
}

}  // namespace sinter
