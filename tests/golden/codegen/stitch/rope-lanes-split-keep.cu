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
    const int u = static_cast<int>(base + static_cast<int>(threadIdx.x) / 16);
    __builtin_assume(u >= 0);
    Pack<ElementBF16, 8> kept53[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
        kept53[j] = load_pack<ElementBF16, 8>(in0 + (u * 128 + i));
      }
    }
    float row3 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
      float v54[8];
      SINTER_EACH(8) v54[e] = Exact::square(kept53[j][e]);
      float w55[8];
      SINTER_EACH(8) w55[e] = v54[e];
      row3 = add_shares(row3, w55, 0x1p-7f);
      }
    }
    group.reduce(Partial<Sum, float>{row3});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 2 + t / 8) * 8;
      {
      float v86[8];
      if ((i + ((u) % 4) * 32) < 64) {
        const auto p56 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i));
        float v60;
        v60 = Sum::empty(float{});
        #pragma unroll 16
        for (int k57t = 0; k57t < 16; ++k57t) {
          const int k57 = k57t * 8 + static_cast<int>(threadIdx.x) % 8;
          const float s58 = ElementBF16::word(in3[(((u) / 4) * 128 + k57)]);
          const float s59 = Exact::square(s58);
          v60 = fmaf(s59, 0x1p-7f, v60);
        }
        v60 = join_lanes<Sum, 8>(v60);
        const float s61 = Exact::add(v60, 0x1.0c6f7ap-20f);
        const float s62 = Exact::rsqrt(s61);
        float v63[8];
        SINTER_EACH(8) v63[e] = Exact::mul(p56[e], s62);
        const auto p64 = load_pack<ElementF32, 8>(in1 + (((u) / 32) * 64 + i + ((u) % 4) * 32));
        float v65[8];
        SINTER_EACH(8) v65[e] = Exact::mul(v63[e], p64[e]);
        const auto p66 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i + 64));
        float v67[8];
        SINTER_EACH(8) v67[e] = Exact::mul(p66[e], s62);
        const auto p68 = load_pack<ElementF32, 8>(in2 + (((u) / 32) * 64 + i + ((u) % 4) * 32));
        float v69[8];
        SINTER_EACH(8) v69[e] = Exact::mul(v67[e], p68[e]);
        float v70[8];
        SINTER_EACH(8) v70[e] = Fast::sub(v65[e], v69[e]);
        SINTER_EACH(8) v86[e] = v70[e];
      } else {
        const auto p71 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i));
        float v75;
        v75 = Sum::empty(float{});
        #pragma unroll 16
        for (int k72t = 0; k72t < 16; ++k72t) {
          const int k72 = k72t * 8 + static_cast<int>(threadIdx.x) % 8;
          const float s73 = ElementBF16::word(in3[(((u) / 4) * 128 + k72)]);
          const float s74 = Exact::square(s73);
          v75 = fmaf(s74, 0x1p-7f, v75);
        }
        v75 = join_lanes<Sum, 8>(v75);
        const float s76 = Exact::add(v75, 0x1.0c6f7ap-20f);
        const float s77 = Exact::rsqrt(s76);
        float v78[8];
        SINTER_EACH(8) v78[e] = Exact::mul(p71[e], s77);
        const auto p79 = load_pack<ElementF32, 8>(in1 + (((u) / 32) * 64 + i + ((u) % 4) * 32 + -64));
        float v80[8];
        SINTER_EACH(8) v80[e] = Exact::mul(v78[e], p79[e]);
        const auto p81 = load_pack<ElementBF16, 8>(in3 + (u * 32 + i + -64));
        float v82[8];
        SINTER_EACH(8) v82[e] = Exact::mul(p81[e], s77);
        const auto p83 = load_pack<ElementF32, 8>(in2 + (((u) / 32) * 64 + i + ((u) % 4) * 32 + -64));
        float v84[8];
        SINTER_EACH(8) v84[e] = Exact::mul(v82[e], p83[e]);
        float v85[8];
        SINTER_EACH(8) v85[e] = Fast::add(v80[e], v84[e]);
        SINTER_EACH(8) v86[e] = v85[e];
      }
      float w87[8];
      SINTER_EACH(8) w87[e] = v86[e];
      if (live && static_cast<int>(threadIdx.x) % 8 == 0) store_pack<ElementBF16, 8>(out1 + (u * 32 + i), w87);
      }
    }
    const float s92 = Exact::add(row3, 0x1.0c6f7ap-20f);
    const float s93 = Exact::rsqrt(s92);
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 16 + t) * 8;
      {
      const bool first88 = (i) < 64;
      const auto p89 = load_pack<ElementF32, 8>(in1 + (first88 ? (i + ((u) / 32) * 64) : (i + ((u) / 32) * 64 + -64)));
      const auto p90 = load_pack<ElementBF16, 8>(in0 + (first88 ? (u * 128 + i + 64) : (u * 128 + i + -64)));
      const auto p91 = load_pack<ElementF32, 8>(in2 + (first88 ? (i + ((u) / 32) * 64) : (i + ((u) / 32) * 64 + -64)));
      float v94[8];
      SINTER_EACH(8) v94[e] = Exact::mul(kept53[j][e], s93);
        float v95[8];
        SINTER_EACH(8) v95[e] = Exact::mul(v94[e], p89[e]);
        float v96[8];
        SINTER_EACH(8) v96[e] = Exact::mul(p90[e], s93);
        float v97[8];
        SINTER_EACH(8) v97[e] = Exact::mul(v96[e], p91[e]);
        float v98[8];
        SINTER_EACH(8) v98[e] = Fast::sub(v95[e], v97[e]);
        float v99[8];
        SINTER_EACH(8) v99[e] = Exact::mul(v94[e], p89[e]);
        float v100[8];
        SINTER_EACH(8) v100[e] = Exact::mul(p90[e], s93);
        float v101[8];
        SINTER_EACH(8) v101[e] = Exact::mul(v100[e], p91[e]);
        float v102[8];
        SINTER_EACH(8) v102[e] = Fast::add(v99[e], v101[e]);
      float v103[8];
      SINTER_EACH(8) v103[e] = first88 ? v98[e] : v102[e];
      float w104[8];
      SINTER_EACH(8) w104[e] = v103[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 128 + i), w104);
      }
    }
  }
  }
}

}  // namespace sinter
