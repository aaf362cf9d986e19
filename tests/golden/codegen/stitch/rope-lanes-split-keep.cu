// block 128 unit 16 vec 8 split 8 keep x6
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 6)
sinter_stitch(const u16* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    const u16* __restrict__ in3,
    u16* __restrict__ out0,
    u16* __restrict__ out1,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 16, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 16;
  const long long units = 2048ll;
  {
  for (long long base = blockIdx.x * 8ll; base < units; base += gridDim.x * 8ll) {
    constexpr bool live = true;
    const long long u = base + static_cast<int>(threadIdx.x) / 16;
    Pack<ElementBF16, 8> kept57[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
        kept57[j] = load_pack<ElementBF16, 8>(in0 + (u * 128 + i));
      }
    }
    float row3 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
      float v58[8];
      SINTER_EACH(8) v58[e] = Exact::square(kept57[j][e]);
      float w59[8];
      SINTER_EACH(8) w59[e] = v58[e];
      row3 = add_shares(row3, w59, 0x1p-7f);
      }
    }
    group.reduce(Partial<Sum, float>{row3});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 2 + t / 8) * 8;
      {
      float v90[8];
      if ((i + ((u) % 4) * 32) < 64) {
        const auto p60 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i));
        float v64;
        v64 = Sum::empty(float{});
        #pragma unroll 16
        for (int k61t = 0; k61t < 16; ++k61t) {
          const int k61 = k61t * 8 + static_cast<int>(threadIdx.x) % 8;
          const float s62 = ElementBF16::word(in3[(((u) / 4) * 128 + k61)]);
          const float s63 = Exact::square(s62);
          v64 = fmaf(s63, 0x1p-7f, v64);
        }
        v64 = join_lanes<Sum, 8>(v64);
        const float s65 = Exact::add(v64, 0x1.0c6f7ap-20f);
        const float s66 = Exact::rsqrt(s65);
        float v67[8];
        SINTER_EACH(8) v67[e] = Exact::mul(p60[e], s66);
        const auto p68 = load_pack<ElementF32, 8>(in1 + (((u) / 32) * 64 + i + ((u) % 4) * 32));
        float v69[8];
        SINTER_EACH(8) v69[e] = Exact::mul(v67[e], p68[e]);
        const auto p70 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i + 64));
        float v71[8];
        SINTER_EACH(8) v71[e] = Exact::mul(p70[e], s66);
        const auto p72 = load_pack<ElementF32, 8>(in2 + (((u) / 32) * 64 + i + ((u) % 4) * 32));
        float v73[8];
        SINTER_EACH(8) v73[e] = Exact::mul(v71[e], p72[e]);
        float v74[8];
        SINTER_EACH(8) v74[e] = Fast::sub(v69[e], v73[e]);
        SINTER_EACH(8) v90[e] = v74[e];
      } else {
        const auto p75 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i));
        float v79;
        v79 = Sum::empty(float{});
        #pragma unroll 16
        for (int k76t = 0; k76t < 16; ++k76t) {
          const int k76 = k76t * 8 + static_cast<int>(threadIdx.x) % 8;
          const float s77 = ElementBF16::word(in3[(((u) / 4) * 128 + k76)]);
          const float s78 = Exact::square(s77);
          v79 = fmaf(s78, 0x1p-7f, v79);
        }
        v79 = join_lanes<Sum, 8>(v79);
        const float s80 = Exact::add(v79, 0x1.0c6f7ap-20f);
        const float s81 = Exact::rsqrt(s80);
        float v82[8];
        SINTER_EACH(8) v82[e] = Exact::mul(p75[e], s81);
        const auto p83 = load_pack<ElementF32, 8>(in1 + (((u) / 32) * 64 + i + ((u) % 4) * 32 + -64));
        float v84[8];
        SINTER_EACH(8) v84[e] = Exact::mul(v82[e], p83[e]);
        const auto p85 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i + -64));
        float v86[8];
        SINTER_EACH(8) v86[e] = Exact::mul(p85[e], s81);
        const auto p87 = load_pack<ElementF32, 8>(in2 + (((u) / 32) * 64 + i + ((u) % 4) * 32 + -64));
        float v88[8];
        SINTER_EACH(8) v88[e] = Exact::mul(v86[e], p87[e]);
        float v89[8];
        SINTER_EACH(8) v89[e] = Fast::add(v84[e], v88[e]);
        SINTER_EACH(8) v90[e] = v89[e];
      }
      float w91[8];
      SINTER_EACH(8) w91[e] = v90[e];
      if (live && static_cast<int>(threadIdx.x) % 8 == 0) store_pack<ElementBF16, 8>(out1 + (u * 32 + i), w91);
      }
    }
    const float s93 = Exact::add(row3, 0x1.0c6f7ap-20f);
    const float s94 = Exact::rsqrt(s93);
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
      float v112[8];
      if ((i) < 64) {
        const auto p92 = load_pack<ElementBF16, 8>(in0 + (u * 128 + i));
        float v95[8];
        SINTER_EACH(8) v95[e] = Exact::mul(p92[e], s94);
        const auto p96 = load_pack<ElementF32, 8>(in1 + (i + ((u) / 32) * 64));
        float v97[8];
        SINTER_EACH(8) v97[e] = Exact::mul(v95[e], p96[e]);
        const auto p98 = load_pack<ElementBF16, 8>(in0 + (u * 128 + i + 64));
        float v99[8];
        SINTER_EACH(8) v99[e] = Exact::mul(p98[e], s94);
        const auto p100 = load_pack<ElementF32, 8>(in2 + (i + ((u) / 32) * 64));
        float v101[8];
        SINTER_EACH(8) v101[e] = Exact::mul(v99[e], p100[e]);
        float v102[8];
        SINTER_EACH(8) v102[e] = Fast::sub(v97[e], v101[e]);
        SINTER_EACH(8) v112[e] = v102[e];
      } else {
        const auto p103 = load_pack<ElementBF16, 8>(in0 + (u * 128 + i));
        float v104[8];
        SINTER_EACH(8) v104[e] = Exact::mul(p103[e], s94);
        const auto p105 = load_pack<ElementF32, 8>(in1 + (i + ((u) / 32) * 64 + -64));
        float v106[8];
        SINTER_EACH(8) v106[e] = Exact::mul(v104[e], p105[e]);
        const auto p107 = load_pack<ElementBF16, 8>(in0 + (u * 128 + i + -64));
        float v108[8];
        SINTER_EACH(8) v108[e] = Exact::mul(p107[e], s94);
        const auto p109 = load_pack<ElementF32, 8>(in2 + (i + ((u) / 32) * 64 + -64));
        float v110[8];
        SINTER_EACH(8) v110[e] = Exact::mul(v108[e], p109[e]);
        float v111[8];
        SINTER_EACH(8) v111[e] = Fast::add(v106[e], v110[e]);
        SINTER_EACH(8) v112[e] = v111[e];
      }
      float w113[8];
      SINTER_EACH(8) w113[e] = v112[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 128 + i), w113);
      }
    }
  }
  }
}

}  // namespace sinter
