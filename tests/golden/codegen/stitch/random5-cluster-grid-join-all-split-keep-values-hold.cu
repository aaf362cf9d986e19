// block 512 unit 512 cluster 4 vec 1 join all split 32 keep+values hold 3072 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(512, 1)
sinter_stitch(const float* __restrict__ in0,
    const u16* __restrict__ in1,
    const unsigned char* __restrict__ in2,
    const unsigned char* __restrict__ in3,
    u16* __restrict__ out0,
    u16* __restrict__ out1,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  const int rank = static_cast<int>(cluster_rank());
  cluster_arrive_relaxed();
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<512, 512, 4, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 3072));
  unsigned char* const shared_columns = dynamic_shared + 3072 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 512;
  const long long units = 9ll;
  {
  float column21[1][1];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(1) column21[j][e] = Sum::empty(float{});
  for (long long base = blockIdx.x / 4; base < units; base += (gridDim.x / 4) * 4) {
    Pack<ElementF32, 1> kept57s[4][1];
    Pack<ElementF16, 1> kept58s[4][1];
    Pack<ElementPred, 1> kept59s[4][1];
    Pack<ElementPred, 1> kept60s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    auto& kept57 = kept57s[q];
    auto& kept58 = kept58s[q];
    auto& kept59 = kept59s[q];
    auto& kept60 = kept60s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 1146) {
        kept57[j] = load_pack<ElementF32, 1>(in0 + (u * 573 + ((i) % 573)));
        kept58[j] = load_pack<ElementF16, 1>(in1 + (u * 573 + ((i) % 573)));
        kept59[j] = load_pack<ElementPred, 1>(in2 + (u * 1146 + i));
        kept60[j] = load_pack<ElementPred, 1>(in3 + (u * 1146 + i));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    auto& kept57 = kept57s[q];
    auto& kept58 = kept58s[q];
    auto& kept59 = kept59s[q];
    auto& kept60 = kept60s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 2) {
      float v71[1];
      SINTER_EACH(1) v71[e] = Largest::empty(float{});
      #pragma unroll 11
      for (int k61 = 0; k61 < 573; ++k61) {
        float v69[1];
        if ((i) < 1) {
          float v62[1];
          SINTER_EACH(1) v62[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k61)]);
          float v63[1];
          SINTER_EACH(1) v63[e] = ElementF16::word(in1[(u * 573 + (i + e) * 573 + k61)]);
          float v64[1];
          SINTER_EACH(1) v64[e] = Fast::mul(v62[e], v63[e]);
          float v65[1];
          SINTER_EACH(1) v65[e] = Fast::abs(v64[e]);
          float v66[1];
          SINTER_EACH(1) v66[e] = Fast::add(v65[e], 0x1p-1f);
          float v67[1];
          SINTER_EACH(1) v67[e] = Fast::reciprocal(v66[e]);
          SINTER_EACH(1) v69[e] = v67[e];
        } else {
          float v68[1];
          SINTER_EACH(1) v68[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k61 + -573)]);
          SINTER_EACH(1) v69[e] = v68[e];
        }
        float v70[1];
        SINTER_EACH(1) v70[e] = rounded<ElementF16>(v69[e]);
        SINTER_EACH(1) v71[e] = Largest::join<float>(v71[e], v70[e]);
      }
      float v72[1];
      SINTER_EACH(1) v72[e] = Fast::erf(v71[e]);
      float v73[1];
      SINTER_EACH(1) v73[e] = Fast::abs(v72[e]);
      float v74[1];
      SINTER_EACH(1) v74[e] = Fast::add(v73[e], 0x1p-1f);
      float v75[1];
      SINTER_EACH(1) v75[e] = Fast::rsqrt(v74[e]);
      float v76[1];
      SINTER_EACH(1) v76[e] = Fast::tanh(v75[e]);
      float v77[1];
      SINTER_EACH(1) v77[e] = Fast::mul(v75[e], v76[e]);
      if (live) SINTER_EACH(1) column21[j][e] = Sum::join<float>(column21[j][e], v77[e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 1146) {
      bool v78[1];
      SINTER_EACH(1) v78[e] = Fast::either(kept59[j][e], kept60[j][e]);
      float v86[1];
      if ((((i) / 573)) < 1) {
        const auto p79 = load_pack<ElementF32, 1>(in0 + (u * 573 + i));
        const auto p80 = load_pack<ElementF16, 1>(in1 + (u * 573 + i));
        float v81[1];
        SINTER_EACH(1) v81[e] = Fast::mul(p79[e], p80[e]);
        float v82[1];
        SINTER_EACH(1) v82[e] = Fast::abs(v81[e]);
        float v83[1];
        SINTER_EACH(1) v83[e] = Fast::add(v82[e], 0x1p-1f);
        float v84[1];
        SINTER_EACH(1) v84[e] = Fast::reciprocal(v83[e]);
        SINTER_EACH(1) v86[e] = v84[e];
      } else {
        const auto p85 = load_pack<ElementF32, 1>(in0 + (u * 573 + i + -573));
        SINTER_EACH(1) v86[e] = p85[e];
      }
      float v87[1];
      SINTER_EACH(1) v87[e] = rounded<ElementF16>(v86[e]);
      float v88[1];
      SINTER_EACH(1) v88[e] = Fast::mul(kept57[j][e], kept58[j][e]);
      float v89[1];
      SINTER_EACH(1) v89[e] = (v78[e] ? v87[e] : v88[e]);
      float v90[1];
      SINTER_EACH(1) v90[e] = Fast::add(v89[e], 0x1p-1f);
      float v91[1];
      SINTER_EACH(1) v91[e] = Fast::relu(v90[e]);
      float w92[1];
      SINTER_EACH(1) w92[e] = v91[e];
      if (live) store_pack<ElementF16, 1>(out1 + (u * 1146 + i), w92);
      }
    }
  }
  }
  leave_columns<Sum, float, 512, 512, 4, 1, 1, 2>(column21,
      reinterpret_cast<float*>(shared_columns), own_part<float, 4, 2>(scratch + 0));
  grid_barrier(barrier);
  join_all_columns<Sum, float, 512, 4, 2>(reinterpret_cast<const float*>(scratch + 0),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(shared_columns + 8192), 1.0f / static_cast<float>(units)});
  }
  {
  for (long long base = blockIdx.x / 4; base < units; base += (gridDim.x / 4) * 4) {
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 16 + t / 32) * 1;
      if (i < 2) {
      float v103[1];
      SINTER_EACH(1) v103[e] = Largest::empty(float{});
      #pragma unroll 11
      for (int k93t = 0; k93t < 18; ++k93t) {
        const int k93 = k93t * 32 + static_cast<int>(threadIdx.x) % 32;
        if (k93 >= 573) continue;
        float v101[1];
        if ((i) < 1) {
          float v94[1];
          SINTER_EACH(1) v94[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k93)]);
          float v95[1];
          SINTER_EACH(1) v95[e] = ElementF16::word(in1[(u * 573 + (i + e) * 573 + k93)]);
          float v96[1];
          SINTER_EACH(1) v96[e] = Fast::mul(v94[e], v95[e]);
          float v97[1];
          SINTER_EACH(1) v97[e] = Fast::abs(v96[e]);
          float v98[1];
          SINTER_EACH(1) v98[e] = Fast::add(v97[e], 0x1p-1f);
          float v99[1];
          SINTER_EACH(1) v99[e] = Fast::reciprocal(v98[e]);
          SINTER_EACH(1) v101[e] = v99[e];
        } else {
          float v100[1];
          SINTER_EACH(1) v100[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k93 + -573)]);
          SINTER_EACH(1) v101[e] = v100[e];
        }
        float v102[1];
        SINTER_EACH(1) v102[e] = rounded<ElementF16>(v101[e]);
        SINTER_EACH(1) v103[e] = Largest::join<float>(v103[e], v102[e]);
      }
      SINTER_EACH(1) v103[e] = join_lanes<Largest, 32>(v103[e]);
      float v104[1];
      SINTER_EACH(1) v104[e] = Fast::erf(v103[e]);
      float v105[1];
      SINTER_EACH(1) v105[e] = Fast::abs(v104[e]);
      float v106[1];
      SINTER_EACH(1) v106[e] = Fast::add(v105[e], 0x1p-1f);
      float v107[1];
      SINTER_EACH(1) v107[e] = Fast::rsqrt(v106[e]);
      float v108[1];
      SINTER_EACH(1) v108[e] = Fast::tanh(v107[e]);
      float v109[1];
      SINTER_EACH(1) v109[e] = Fast::add(v107[e], 0x1p-1f);
      const auto p110 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(shared_columns + 8192) + (i));
      float v111[1];
      SINTER_EACH(1) v111[e] = Fast::sub(v109[e], p110[e]);
      float v112[1];
      SINTER_EACH(1) v112[e] = Fast::mul(v108[e], v111[e]);
      float w113[1];
      SINTER_EACH(1) w113[e] = v112[e];
      if (live && static_cast<int>(threadIdx.x) % 32 == 0) store_pack<ElementBF16, 1>(out0 + (u * 2 + i), w113);
      }
    }
  }
  }
  }
}

}  // namespace sinter
