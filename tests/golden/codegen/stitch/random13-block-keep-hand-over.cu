// block 256 unit 256 vec 4 keep handed 2,20 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    unsigned char* __restrict__ out0,
    u16* __restrict__ out1,
    u16* __restrict__ out2,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 256, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 256;
  const long long units = 1ll;
  {
  unsigned char* const handed = dynamic_shared + 64;
  for (long long base = blockIdx.x * 1ll; base < units; base += gridDim.x * 1ll) {
    constexpr bool live = true;
    const long long u = base;
    #pragma unroll
    for (int j = 0; j < 30; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      const auto p41 = load_pack<ElementBF16, 2>(in0 + (i));
      float v42[2];
      SINTER_EACH(2) v42[e] = Fast::sigmoid(p41[e]);
      float w43[2];
      SINTER_EACH(2) w43[e] = v42[e];
      leave_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 0) + (i), w43);
      }
    }
    group.share();
    float row6 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 2;
      if (i < 12) {
      float v49[2];
      SINTER_EACH(2) v49[e] = Largest::empty(float{});
      #pragma unroll 16
      for (int k44 = 0; k44 < 2560; ++k44) {
        float v47[2];
        if ((((k44) / 160)) < 8) {
          float v45[2];
          SINTER_EACH(2) v45[e] = ElementBF16::word(in0[((i + e) * 10 + ((k44) / 10) * 120 + ((k44) % 10))]);
          SINTER_EACH(2) v47[e] = v45[e];
        } else {
          float v46[2];
          SINTER_EACH(2) v46[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 10 + ((k44) / 10) * 120 + ((k44) % 10) + -15360)]);
          SINTER_EACH(2) v47[e] = v46[e];
        }
        float v48[2];
        SINTER_EACH(2) v48[e] = Fast::cos(v47[e]);
        SINTER_EACH(2) v49[e] = Largest::join<float>(v49[e], v48[e]);
      }
      float w50[2];
      SINTER_EACH(2) w50[e] = v49[e];
      row6 = Sum::join<float>(row6, fold<Sum>(w50));
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    row6 *= 0x1.555556p-4f;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 256 + t) * 2;
      if (i < 1920) {
      float v55[2];
      SINTER_EACH(2) v55[e] = Sum::empty(float{});
      #pragma unroll 16
      for (int k51 = 0; k51 < 16; ++k51) {
        float v54[2];
        if ((k51) < 8) {
          const auto p52 = load_pack<ElementBF16, 2>(in0 + (i + k51 * 1920));
          SINTER_EACH(2) v54[e] = p52[e];
        } else {
          const auto p53 = load_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 0) + (i + k51 * 1920 + -15360));
          SINTER_EACH(2) v54[e] = p53[e];
        }
        SINTER_EACH(2) v55[e] = Sum::join<float>(v55[e], v54[e]);
      }
      float v56[2];
      SINTER_EACH(2) v56[e] = Fast::mul(v55[e], 0x1p-1f);
      float w57[2];
      SINTER_EACH(2) w57[e] = v56[e];
      if (live) store_pack<ElementBF16, 2>(out1 + (i), w57);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 1;
      if (i < 1) {
      float v59;
      v59 = Sum::empty(float{});
      #pragma unroll 1
      for (int k58 = 0; k58 < 1; ++k58) {
        v59 = Sum::join<float>(v59, row6);
      }
      const float s60 = rounded<ElementE4M3>(v59);
      float w61[1];
      SINTER_EACH(1) w61[e] = s60;
      if (live) SINTER_EACH(1) out0[0] = ElementE4M3::stored(w61[e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      float v69[2];
      SINTER_EACH(2) v69[e] = Largest::empty(float{});
      #pragma unroll 15
      for (int k62 = 0; k62 < 20; ++k62) {
        float v65[2];
        if ((k62) < 10) {
          float v63[2];
          SINTER_EACH(2) v63[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 10 + k62)]);
          SINTER_EACH(2) v65[e] = v63[e];
        } else {
          float v64[2];
          SINTER_EACH(2) v64[e] = ElementBF16::word(in0[((i + e) * 10 + k62 + -10)]);
          SINTER_EACH(2) v65[e] = v64[e];
        }
        float v66[2];
        SINTER_EACH(2) v66[e] = Fast::add(v65[e], row6);
        float v67[2];
        SINTER_EACH(2) v67[e] = Fast::add(v66[e], 0x1p-1f);
        float v68[2];
        SINTER_EACH(2) v68[e] = Fast::relu(v67[e]);
        SINTER_EACH(2) v69[e] = Largest::join<float>(v69[e], v68[e]);
      }
      float w70[2];
      SINTER_EACH(2) w70[e] = v69[e];
      leave_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 61440) + (i), w70);
      }
    }
    group.share();
    #pragma unroll
    for (int j = 0; j < 6; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      float v73[2];
      if ((((i) % 24)) < 12) {
        const auto p71 = load_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 61440) + (((i) / 24) * 12 + ((i) % 24)));
        SINTER_EACH(2) v73[e] = p71[e];
      } else {
        const auto p72 = load_pack<ElementBF16, 2>(in1 + (((i) / 24) * 12 + ((i) % 24) + -12));
        SINTER_EACH(2) v73[e] = p72[e];
      }
      float v74[2];
      SINTER_EACH(2) v74[e] = Fast::mul(v73[e], 0x1.99999ap-2f);
      float v75[2];
      SINTER_EACH(2) v75[e] = Fast::abs(v74[e]);
      float v76[2];
      SINTER_EACH(2) v76[e] = Fast::add(v75[e], 0x1p-1f);
      float v78;
      v78 = Sum::empty(float{});
      #pragma unroll 1
      for (int k77 = 0; k77 < 1; ++k77) {
        v78 = Sum::join<float>(v78, row6);
      }
      const float s79 = Fast::mul(v78, 0x1p+0f);
      float v80[2];
      SINTER_EACH(2) v80[e] = Fast::pow(v76[e], s79);
      float w81[2];
      SINTER_EACH(2) w81[e] = v80[e];
      if (live) store_pack<ElementF16, 2>(out2 + (i), w81);
      }
    }
  }
  }
}

}  // namespace sinter
