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
    const int u = static_cast<int>(base);
    __builtin_assume(u >= 0);
    #pragma unroll
    for (int j = 0; j < 30; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      const auto p40 = load_pack<ElementBF16, 2>(in0 + (i));
      float v41[2];
      SINTER_EACH(2) v41[e] = Exact::sigmoid(p40[e]);
      float w42[2];
      SINTER_EACH(2) w42[e] = v41[e];
      leave_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 0) + (i), w42);
      }
    }
    group.share();
    float row6 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 2;
      if (i < 12) {
      float v48[2];
      SINTER_EACH(2) v48[e] = Largest::empty(float{});
      #pragma unroll 16
      for (int k43 = 0; k43 < 2560; ++k43) {
        float v46[2];
        if ((((k43) / 160)) < 8) {
          float v44[2];
          SINTER_EACH(2) v44[e] = ElementBF16::word(in0[((i + e) * 10 + ((k43) / 10) * 120 + ((k43) % 10))]);
          SINTER_EACH(2) v46[e] = v44[e];
        } else {
          float v45[2];
          SINTER_EACH(2) v45[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 10 + ((k43) / 10) * 120 + ((k43) % 10) + -15360)]);
          SINTER_EACH(2) v46[e] = v45[e];
        }
        float v47[2];
        SINTER_EACH(2) v47[e] = Exact::cos(v46[e]);
        SINTER_EACH(2) v48[e] = Largest::join<float>(v48[e], v47[e]);
      }
      float w49[2];
      SINTER_EACH(2) w49[e] = v48[e];
      row6 = add_shares(row6, w49, 0x1p-4f);
      }
    }
    group.reduce(Partial<Sum, float>{row6});
    row6 *= 0x1.555556p+0f;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 256 + t) * 2;
      if (i < 1920) {
      float v54[2];
      SINTER_EACH(2) v54[e] = Sum::empty(float{});
      #pragma unroll 16
      for (int k50 = 0; k50 < 16; ++k50) {
        float v53[2];
        if ((k50) < 8) {
          const auto p51 = load_pack<ElementBF16, 2>(in0 + (i + k50 * 1920));
          SINTER_EACH(2) v53[e] = p51[e];
        } else {
          const auto p52 = load_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 0) + (i + k50 * 1920 + -15360));
          SINTER_EACH(2) v53[e] = p52[e];
        }
        SINTER_EACH(2) v54[e] = Sum::join<float>(v54[e], v53[e]);
      }
      float v55[2];
      SINTER_EACH(2) v55[e] = Fast::mul(v54[e], 0x1p-1f);
      float w56[2];
      SINTER_EACH(2) w56[e] = v55[e];
      if (live) store_pack<ElementBF16, 2>(out1 + (i), w56);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 1;
      if (i < 1) {
      float v58;
      v58 = Sum::empty(float{});
      #pragma unroll 1
      for (int k57 = 0; k57 < 1; ++k57) {
        v58 = Sum::join<float>(v58, row6);
      }
      float w59[1];
      SINTER_EACH(1) w59[e] = v58;
      if (live) SINTER_EACH(1) out0[0] = ElementE4M3::stored(w59[e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      float v67[2];
      SINTER_EACH(2) v67[e] = Largest::empty(float{});
      #pragma unroll 15
      for (int k60 = 0; k60 < 20; ++k60) {
        float v63[2];
        if ((k60) < 10) {
          float v61[2];
          SINTER_EACH(2) v61[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 10 + k60)]);
          SINTER_EACH(2) v63[e] = v61[e];
        } else {
          float v62[2];
          SINTER_EACH(2) v62[e] = ElementBF16::word(in0[((i + e) * 10 + k60 + -10)]);
          SINTER_EACH(2) v63[e] = v62[e];
        }
        float v64[2];
        SINTER_EACH(2) v64[e] = Exact::add(v63[e], row6);
        float v65[2];
        SINTER_EACH(2) v65[e] = Exact::add(v64[e], 0x1p-1f);
        float v66[2];
        SINTER_EACH(2) v66[e] = Exact::relu(v65[e]);
        SINTER_EACH(2) v67[e] = Largest::join<float>(v67[e], v66[e]);
      }
      float w68[2];
      SINTER_EACH(2) w68[e] = v67[e];
      leave_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 61440) + (i), w68);
      }
    }
    group.share();
    #pragma unroll
    for (int j = 0; j < 6; ++j) {
      const int i = (j * 256 + t) * 2;
      {
      float v71[2];
      if ((((i) % 24)) < 12) {
        const auto p69 = load_pack<ElementF32, 2>(handed_at<ElementF32>(handed + 61440) + (((i) / 24) * 12 + ((i) % 24)));
        SINTER_EACH(2) v71[e] = p69[e];
      } else {
        const auto p70 = load_pack<ElementBF16, 2>(in1 + (((i) / 24) * 12 + ((i) % 24) + -12));
        SINTER_EACH(2) v71[e] = p70[e];
      }
      float v72[2];
      SINTER_EACH(2) v72[e] = Exact::mul(v71[e], 0x1.99999ap-2f);
      float v73[2];
      SINTER_EACH(2) v73[e] = Exact::abs(v72[e]);
      float v74[2];
      SINTER_EACH(2) v74[e] = Exact::add(v73[e], 0x1p-1f);
      float v76;
      v76 = Sum::empty(float{});
      #pragma unroll 1
      for (int k75 = 0; k75 < 1; ++k75) {
        v76 = Sum::join<float>(v76, row6);
      }
      const float s77 = Exact::mul(v76, 0x1p+0f);
      float v78[2];
      SINTER_EACH(2) v78[e] = Fast::pow(v74[e], s77);
      float w79[2];
      SINTER_EACH(2) w79[e] = v78[e];
      if (live) store_pack<ElementF16, 2>(out2 + (i), w79);
      }
    }
  }
  }
}

}  // namespace sinter
