// block 1024 unit 1024 vec 4 split 32 handed 14 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(1024, 1)
sinter_stitch(const float* __restrict__ in0,
    const unsigned char* __restrict__ in1,
    const u16* __restrict__ in2,
    const float* __restrict__ in3,
    const int* __restrict__ in4,
    const int* __restrict__ in5,
    u16* __restrict__ out0,
    u16* __restrict__ out1,
    float* __restrict__ out2,
    u16* __restrict__ out3,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<1024, 1024, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 1024;
  const long long units = 1ll;
  {
  unsigned char* const handed = dynamic_shared + 256;
  for (long long base = blockIdx.x * 1ll; base < units; base += gridDim.x * 1ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base);
    __builtin_assume(u >= 0);
    float row15 = Largest::empty(float{});
    #pragma unroll 4
    for (int j = 0; j < 10; ++j) {
      const int i = (j * 1024 + t) * 1;
      if (i < 9728) {
      const auto p44 = load_pack<ElementF32, 1>(in0 + (i));
      const auto p45 = load_pack<ElementE4M3, 1>(in1 + (i));
      float v46[1];
      SINTER_EACH(1) v46[e] = Exact::min(p44[e], p45[e]);
      float w47[1];
      SINTER_EACH(1) w47[e] = v46[e];
      row15 = Largest::join<float>(row15, fold<Largest>(w47));
      }
    }
    group.reduce(Partial<Largest, float>{row15});
    #pragma unroll 4
    for (int j = 0; j < 9; ++j) {
      const int i = (j * 1024 + t) * 1;
      if (i < 8704) {
      const auto p48 = load_pack<ElementF32, 1>(in0 + (((i) / 17) * 19 + ((i) % 17) + 1));
      const auto p49 = load_pack<ElementE4M3, 1>(in1 + (((i) / 17) * 19 + ((i) % 17) + 1));
      float v50[1];
      SINTER_EACH(1) v50[e] = Exact::min(p48[e], p49[e]);
      float v51[1];
      SINTER_EACH(1) v51[e] = Exact::mul(v50[e], 0x1p+0f);
      float v52[1];
      SINTER_EACH(1) v52[e] = Exact::abs(v51[e]);
      float v53[1];
      SINTER_EACH(1) v53[e] = Exact::add(v52[e], 0x1p-1f);
      const auto p54 = load_pack<ElementF16, 1>(in2 + (i));
      float v55[1];
      SINTER_EACH(1) v55[e] = Exact::mul(p54[e], 0x1p+0f);
      float v56[1];
      SINTER_EACH(1) v56[e] = Exact::pow(v53[e], v55[e]);
      float w57[1];
      SINTER_EACH(1) w57[e] = v56[e];
      leave_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i), w57);
      }
    }
    #pragma unroll 4
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t / 32) * 1;
      if (i < 17) {
      float v62[1];
      SINTER_EACH(1) v62[e] = Sum::empty(float{});
      #pragma unroll 12
      for (int k58t = 0; k58t < 12; ++k58t) {
        const int k58 = k58t * 32 + static_cast<int>(threadIdx.x) % 32;
        const auto p59 = load_pack<ElementF32, 1>(in0 + (i + k58 * 19 + 2433));
        const auto p60 = load_pack<ElementE4M3, 1>(in1 + (i + k58 * 19 + 2433));
        float v61[1];
        SINTER_EACH(1) v61[e] = Exact::min(p59[e], p60[e]);
        SINTER_EACH(1) v62[e] = Sum::join<float>(v62[e], v61[e]);
      }
      SINTER_EACH(1) v62[e] = join_lanes<Sum, 32>(v62[e]);
      float v63[1];
      SINTER_EACH(1) v63[e] = Fast::mul(v62[e], 0x1p-6f);
      float v64[1];
      SINTER_EACH(1) v64[e] = Fast::abs(v63[e]);
      float w65[1];
      SINTER_EACH(1) w65[e] = v64[e];
      if (live && static_cast<int>(threadIdx.x) % 32 == 0) store_pack<ElementF16, 1>(out3 + (i), w65);
      }
    }
    group.share();
    #pragma unroll 4
    for (int j = 0; j < 9; ++j) {
      const int i = (j * 1024 + t) * 1;
      if (i < 8704) {
      const auto p66 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i));
      float v67[1];
      SINTER_EACH(1) v67[e] = Fast::min(p66[e], row15);
      float w68[1];
      SINTER_EACH(1) w68[e] = v67[e];
      if (live) store_pack<ElementBF16, 1>(out0 + (i), w68);
      float v69[1];
      SINTER_EACH(1) v69[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((((i + e)) / 512) + (((((i + e)) / 16)) % 32) * 17 + (((i + e)) % 16) * 544)]);
      float v70[1];
      SINTER_EACH(1) v70[e] = Exact::mul(v69[e], 0x1p-1f);
      float v71[1];
      SINTER_EACH(1) v71[e] = Exact::abs(v70[e]);
      float v72[1];
      SINTER_EACH(1) v72[e] = Exact::add(v71[e], 0x1p-1f);
      float v73[1];
      SINTER_EACH(1) v73[e] = ElementF32::word(in3[((((i + e)) / 512) + (((((i + e)) / 16)) % 32) * 17 + (((i + e)) % 16) * 544)]);
      float v74[1];
      SINTER_EACH(1) v74[e] = Exact::mul(v73[e], 0x1p+0f);
      float v75[1];
      SINTER_EACH(1) v75[e] = Fast::pow(v72[e], v74[e]);
      float w76[1];
      SINTER_EACH(1) w76[e] = v75[e];
      if (live) store_pack<ElementBF16, 1>(out1 + (i), w76);
      }
    }
    #pragma unroll 4
    for (int j = 0; j < 5; ++j) {
      const int i = (j * 1024 + t) * 1;
      {
      float v84[1];
      if ((((i) % 10) + 7) < 17) {
        const auto p77 = load_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (((i) / 10) * 17 + ((i) % 10) + 7));
        const auto p78 = load_pack<ElementS32, 1>(in4 + (((i) / 10) * 24 + ((i) % 10) + 7));
        const auto p79 = load_pack<ElementS32, 1>(in5 + (((i) / 10) * 17 + ((i) % 10) + 7));
        int v80[1];
        SINTER_EACH(1) v80[e] = Exact::mul(p78[e], p79[e]);
        float v81[1];
        SINTER_EACH(1) v81[e] = to_f32(v80[e]);
        float v82[1];
        SINTER_EACH(1) v82[e] = Exact::mul(v81[e], 0x1p-8f);
        float v83[1];
        SINTER_EACH(1) v83[e] = Exact::add(p77[e], v82[e]);
        SINTER_EACH(1) v84[e] = v83[e];
      } else {
        SINTER_EACH(1) v84[e] = row15;
      }
      float v85[1];
      SINTER_EACH(1) v85[e] = Exact::mul(v84[e], 0x1.555556p-1f);
      float v86[1];
      SINTER_EACH(1) v86[e] = Exact::exp(v85[e]);
      float w87[1];
      SINTER_EACH(1) w87[e] = v86[e];
      if (live) store_pack<ElementF32, 1>(out2 + (i), w87);
      }
    }
  }
  }
}

}  // namespace sinter
