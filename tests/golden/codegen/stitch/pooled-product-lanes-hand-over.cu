// block 128 unit 16 vec 4 handed 12 x9
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
  using Group = UnitGroup<128, 16, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 16;
  const long long units = 256ll;
  {
  unsigned char* const handed = dynamic_shared + 0 + static_cast<int>(threadIdx.x) / 16 * 400;
  for (long long base = blockIdx.x * 8ll; base < units; base += gridDim.x * 8ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base + static_cast<int>(threadIdx.x) / 16);
    __builtin_assume(u >= 0);
    float row6 = Largest::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 16 + t) * 4;
      if (i < 100) {
      const auto p23 = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
      const auto p24 = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      float v25[4];
      SINTER_EACH(4) v25[e] = Exact::add(p23[e], p24[e]);
      float w26[4];
      SINTER_EACH(4) w26[e] = v25[e];
      row6 = Largest::join<float>(row6, fold<Largest>(w26));
      }
    }
    group.reduce(Partial<Largest, float>{row6});
    float row10 = Sum::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 16 + t) * 4;
      if (i < 100) {
      const auto p27 = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
      const auto p28 = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      float v29[4];
      SINTER_EACH(4) v29[e] = Exact::add(p27[e], p28[e]);
      float v30[4];
      SINTER_EACH(4) v30[e] = Exact::sub(v29[e], row6);
      float v31[4];
      SINTER_EACH(4) v31[e] = Fast::exp(v30[e]);
      float w32[4];
      SINTER_EACH(4) w32[e] = v31[e];
      row10 = Sum::join<float>(row10, fold<Sum>(w32));
      }
    }
    group.reduce(Partial<Sum, float>{row10});
    group.share();
    #pragma unroll 4
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 16 + t) * 4;
      if (i < 100) {
      const auto p33 = load_pack<ElementBF16, 4>(in0 + (u * 100 + i));
      const auto p34 = load_pack<ElementBF16, 4>(in1 + (u * 100 + i));
      float v35[4];
      SINTER_EACH(4) v35[e] = Exact::add(p33[e], p34[e]);
      float v36[4];
      SINTER_EACH(4) v36[e] = Exact::sub(v35[e], row6);
      float v37[4];
      SINTER_EACH(4) v37[e] = Fast::exp(v36[e]);
      float v38[4];
      SINTER_EACH(4) v38[e] = Fast::div(v37[e], row10);
      float w39[4];
      SINTER_EACH(4) w39[e] = v38[e];
      leave_pack<ElementF32, 4>(handed_at<ElementF32>(handed + 0) + (i), w39);
      }
    }
    group.share();
    #pragma unroll 4
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 4;
      if (i < 36) {
      float v44[4];
      SINTER_EACH(4) v44[e] = Sum::empty(float{});
      #pragma unroll 16
      for (int k40 = 0; k40 < 100; ++k40) {
        const float s41 = ElementF32::word(handed_at<ElementF32>(handed + 0)[(k40)]);
        const auto p42 = load_pack<ElementBF16, 4>(in2 + (u * 3600 + i + k40 * 36));
        float v43[4];
        SINTER_EACH(4) v43[e] = s41 * p42[e];
        SINTER_EACH(4) v44[e] = Sum::join<float>(v44[e], v43[e]);
      }
      float w45[4];
      SINTER_EACH(4) w45[e] = v44[e];
      if (live) store_pack<ElementBF16, 4>(out0 + (u * 36 + i), w45);
      }
    }
  }
  }
}

}  // namespace sinter
