// block 256 unit 32 vec 4 keep+values hold 10240 handed 7 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_stitch(const u16* __restrict__ in0,
    const u16* __restrict__ in1,
    const unsigned char* __restrict__ in2,
    u16* __restrict__ out0,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 32, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 10240));
  unsigned char* const shared_columns = dynamic_shared + 10240 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 32;
  const long long units = 74ll;
  {
  float seen24 = 0.0f;
  Moments column24[2][1];
  #pragma unroll
  for (int j = 0; j < 2; ++j)
    SINTER_EACH(1) column24[j][e] = JoinMoments::empty(Moments{});
  unsigned char* const handed = dynamic_shared + 15744 + static_cast<int>(threadIdx.x) / 32 * 992;
  int round = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += gridDim.x * 8ll, ++round) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementE4M3, 1> kept41[8];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 247) {
        kept41[j] = load_pack<ElementE4M3, 1>(in2 + (u * 247 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 247) {
        if (live) hold_pack(dynamic_shared + 0, (round * 8 + j) * 256 + threadIdx.x, kept41[j]);
      }
    }
    group.share();
    float row13 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 247) {
      float v45[1];
      if ((u) < 37) {
        float v42[1];
        SINTER_EACH(1) v42[e] = ElementBF16::word(in0[(u + (i + e) * 37)]);
        float v43[1];
        SINTER_EACH(1) v43[e] = Exact::exp(v42[e]);
        SINTER_EACH(1) v45[e] = v43[e];
      } else {
        const float s44 = ElementBF16::word(in1[(u + -37)]);
        SINTER_EACH(1) v45[e] = s44;
      }
      float w46[1];
      SINTER_EACH(1) w46[e] = v45[e];
      leave_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i), w46);
      float v47[1];
      SINTER_EACH(1) v47[e] = Exact::mul(kept41[j][e], v45[e]);
      float w48[1];
      SINTER_EACH(1) w48[e] = v47[e];
      row13 = add_shares(row13, w48, 0x1p-8f);
      }
    }
    group.reduce(Partial<Sum, float>{row13});
    row13 *= 0x1.0953f4p+0f;
    group.share();
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 43) {
      float v49[1];
      SINTER_EACH(1) v49[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 2 + 84)]);
      float v50[1];
      SINTER_EACH(1) v50[e] = ElementE4M3::word(in2[(u * 247 + (i + e) * 2 + 84)]);
      float v51[1];
      SINTER_EACH(1) v51[e] = Exact::add(v50[e], 0x1p-1f);
      float v52[1];
      SINTER_EACH(1) v52[e] = Exact::sub(v51[e], row13);
      float v53[1];
      SINTER_EACH(1) v53[e] = Exact::mul(v49[e], v52[e]);
      float v54[1];
      SINTER_EACH(1) v54[e] = Exact::mul(v53[e], 0x1p-1f);
      if (live && j == 0) seen24 += 1.0f;
      const float s55 = live ? reciprocal_approx(seen24) : 0.0f;
      SINTER_EACH(1) column24[j][e].take(live ? v54[e] : column24[j][e].mean, s55);
      }
    }
  }
  #pragma unroll
  for (int j = 0; j < 2; ++j)
    SINTER_EACH(1) column24[j][e].count = seen24;
  leave_columns<JoinMoments, Moments, 256, 32, 1, 2, 1, 43>(column24,
      reinterpret_cast<Moments*>(shared_columns), own_part<Moments, 1, 43>(scratch + 0));
  grid_barrier(barrier);
  join_columns<JoinMoments, Moments, 256, 1, 43>(reinterpret_cast<const Moments*>(scratch + 0),
      reinterpret_cast<Moments*>(shared_columns), MomentResults{reinterpret_cast<float*>(scratch + 7168), reinterpret_cast<float*>(scratch + 6912), 1.0f / static_cast<float>(units)});
  grid_barrier(barrier);
  }
  {
  unsigned char* const handed = dynamic_shared + 15744 + static_cast<int>(threadIdx.x) / 32 * 992;
  int round = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += gridDim.x * 8ll, ++round) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementE4M3, 1> kept56[8];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 247) {
        kept56[j] = take_pack<ElementE4M3, 1>(dynamic_shared + 0, (round * 8 + j) * 256 + threadIdx.x);
      }
    }
    group.share();
    float row13 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 247) {
      float v60[1];
      if ((u) < 37) {
        float v57[1];
        SINTER_EACH(1) v57[e] = ElementBF16::word(in0[(u + (i + e) * 37)]);
        float v58[1];
        SINTER_EACH(1) v58[e] = Exact::exp(v57[e]);
        SINTER_EACH(1) v60[e] = v58[e];
      } else {
        const float s59 = ElementBF16::word(in1[(u + -37)]);
        SINTER_EACH(1) v60[e] = s59;
      }
      float w61[1];
      SINTER_EACH(1) w61[e] = v60[e];
      leave_pack<ElementF32, 1>(handed_at<ElementF32>(handed + 0) + (i), w61);
      float v62[1];
      SINTER_EACH(1) v62[e] = Exact::mul(kept56[j][e], v60[e]);
      float w63[1];
      SINTER_EACH(1) w63[e] = v62[e];
      row13 = add_shares(row13, w63, 0x1p-8f);
      }
    }
    group.reduce(Partial<Sum, float>{row13});
    row13 *= 0x1.0953f4p+0f;
    group.share();
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 1;
      if (i < 43) {
      float v64[1];
      SINTER_EACH(1) v64[e] = ElementF32::word(handed_at<ElementF32>(handed + 0)[((i + e) * 2 + 84)]);
      float v65[1];
      SINTER_EACH(1) v65[e] = ElementE4M3::word(in2[(u * 247 + (i + e) * 2 + 84)]);
      float v66[1];
      SINTER_EACH(1) v66[e] = Exact::add(v65[e], 0x1p-1f);
      float v67[1];
      SINTER_EACH(1) v67[e] = Exact::sub(v66[e], row13);
      float v68[1];
      SINTER_EACH(1) v68[e] = Exact::mul(v64[e], v67[e]);
      float v69[1];
      SINTER_EACH(1) v69[e] = Exact::mul(v68[e], 0x1p-1f);
      const auto p70 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(scratch + 7168) + (i));
      float v71[1];
      SINTER_EACH(1) v71[e] = Exact::sub(v69[e], p70[e]);
      const auto p72 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(scratch + 6912) + (i));
      float v73[1];
      SINTER_EACH(1) v73[e] = Exact::add(p72[e], 0x1p-4f);
      float v74[1];
      SINTER_EACH(1) v74[e] = Exact::rsqrt(v73[e]);
      float v75[1];
      SINTER_EACH(1) v75[e] = Exact::mul(v71[e], v74[e]);
      float v76[1];
      SINTER_EACH(1) v76[e] = Exact::mul(v69[e], 0x1p-1f);
      float v77[1];
      SINTER_EACH(1) v77[e] = Exact::add(v75[e], v76[e]);
      float v78[1];
      SINTER_EACH(1) v78[e] = Exact::mul(v77[e], 0x1p-3f);
      float v79[1];
      SINTER_EACH(1) v79[e] = Exact::sin(v78[e]);
      float v80[1];
      SINTER_EACH(1) v80[e] = Fast::sigmoid(v79[e]);
      float w81[1];
      SINTER_EACH(1) w81[e] = v80[e];
      if (live) store_pack<ElementF16, 1>(out0 + (u * 43 + i), w81);
      }
    }
  }
  }
}

}  // namespace sinter
