// block 256 unit 256 vec 4 split 32 keep+values handed 9 x4
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 4)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 256, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 256;
  const long long units = 256ll;
  {
  unsigned char* const handed = dynamic_shared + 64;
  for (long long base = blockIdx.x * 1ll; base < units; base += gridDim.x * 1ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base);
    __builtin_assume(u >= 0);
    Pack<ElementBF16, 4> kept18[1];
    Pack<ElementBF16, 4> kept19[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 4;
      if (i < 100) {
        kept18[j] = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
        kept19[j] = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      }
    }
    float row6 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 4;
      if (i < 100) {
      float v20[4];
      SINTER_EACH(4) v20[e] = Exact::add(kept18[j][e], kept19[j][e]);
      float w21[4];
      SINTER_EACH(4) w21[e] = v20[e];
      row6 = Largest::join<float>(row6, fold<Largest>(w21));
      }
    }
    group.reduce(Partial<Largest, float>{row6});
    float row10 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 4;
      if (i < 100) {
      float v22[4];
      SINTER_EACH(4) v22[e] = Exact::add(kept18[j][e], kept19[j][e]);
      float v23[4];
      SINTER_EACH(4) v23[e] = Exact::sub(v22[e], row6);
      float v24[4];
      SINTER_EACH(4) v24[e] = Fast::exp(v23[e]);
      float w25[4];
      SINTER_EACH(4) w25[e] = v24[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w25);
      float w26[4];
      SINTER_EACH(4) w26[e] = v24[e];
      row10 = Sum::join<float>(row10, fold<Sum>(w26));
      }
    }
    group.reduce(Partial<Sum, float>{row10});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 8 + t / 32) * 4;
      if (i < 36) {
      float v32[4];
      SINTER_EACH(4) v32[e] = Sum::empty(float{});
      #pragma unroll 4
      for (int k27t = 0; k27t < 4; ++k27t) {
        const int k27 = k27t * 32 + static_cast<int>(threadIdx.x) % 32;
        if (k27 >= 100) continue;
        const float s28 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k27)]);
        const float s29 = Fast::div(s28, row10);
        const auto p30 = load_pack<ElementBF16, 4>(in2 + (u * 3600 + i + k27 * 36));
        float v31[4];
        SINTER_EACH(4) v31[e] = Fast::mul(s29, p30[e]);
        SINTER_EACH(4) v32[e] = Sum::join<float>(v32[e], v31[e]);
      }
      SINTER_EACH(4) v32[e] = join_lanes<Sum, 32>(v32[e]);
      float w33[4];
      SINTER_EACH(4) w33[e] = v32[e];
      if (live && static_cast<int>(threadIdx.x) % 32 == 0) store_pack<ElementBF16, 4>(out0 + (u * 36 + i), w33);
      }
    }
  }
  }
}

}  // namespace sinter
