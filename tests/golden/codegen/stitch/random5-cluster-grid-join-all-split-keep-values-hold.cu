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
    Pack<ElementF32, 1> kept58s[4][1];
    Pack<ElementF16, 1> kept59s[4][1];
    Pack<ElementPred, 1> kept60s[4][1];
    Pack<ElementPred, 1> kept61s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    auto& kept58 = kept58s[q];
    auto& kept59 = kept59s[q];
    auto& kept60 = kept60s[q];
    auto& kept61 = kept61s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 1146) {
        kept58[j] = load_pack<ElementF32, 1>(in0 + (u * 573 + ((i) % 573)));
        kept59[j] = load_pack<ElementF16, 1>(in1 + (u * 573 + ((i) % 573)));
        kept60[j] = load_pack<ElementPred, 1>(in2 + (u * 1146 + i));
        kept61[j] = load_pack<ElementPred, 1>(in3 + (u * 1146 + i));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    auto& kept58 = kept58s[q];
    auto& kept59 = kept59s[q];
    auto& kept60 = kept60s[q];
    auto& kept61 = kept61s[q];
    if (base + q * (gridDim.x / 4) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 2) {
      float v72[1];
      SINTER_EACH(1) v72[e] = Largest::empty(float{});
      #pragma unroll 11
      for (int k62 = 0; k62 < 573; ++k62) {
        float v70[1];
        if ((i) < 1) {
          float v63[1];
          SINTER_EACH(1) v63[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k62)]);
          float v64[1];
          SINTER_EACH(1) v64[e] = ElementF16::word(in1[(u * 573 + (i + e) * 573 + k62)]);
          float v65[1];
          SINTER_EACH(1) v65[e] = Exact::mul(v63[e], v64[e]);
          float v66[1];
          SINTER_EACH(1) v66[e] = Exact::abs(v65[e]);
          float v67[1];
          SINTER_EACH(1) v67[e] = Exact::add(v66[e], 0x1p-1f);
          float v68[1];
          SINTER_EACH(1) v68[e] = Exact::reciprocal(v67[e]);
          SINTER_EACH(1) v70[e] = v68[e];
        } else {
          float v69[1];
          SINTER_EACH(1) v69[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k62 + -573)]);
          SINTER_EACH(1) v70[e] = v69[e];
        }
        float v71[1];
        SINTER_EACH(1) v71[e] = rounded<ElementF16>(v70[e]);
        SINTER_EACH(1) v72[e] = Largest::join<float>(v72[e], v71[e]);
      }
      float v73[1];
      SINTER_EACH(1) v73[e] = Exact::erf(v72[e]);
      float v74[1];
      SINTER_EACH(1) v74[e] = Exact::abs(v73[e]);
      float v75[1];
      SINTER_EACH(1) v75[e] = Exact::add(v74[e], 0x1p-1f);
      float v76[1];
      SINTER_EACH(1) v76[e] = Exact::rsqrt(v75[e]);
      float v77[1];
      SINTER_EACH(1) v77[e] = Exact::tanh(v76[e]);
      float v78[1];
      SINTER_EACH(1) v78[e] = Exact::mul(v76[e], v77[e]);
      const float s79 = mean_share(units);
      if (live) SINTER_EACH(1) column21[j][e] = fmaf(v78[e], s79, column21[j][e]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 512 + t) * 1;
      if (i < 1146) {
      bool v80[1];
      SINTER_EACH(1) v80[e] = Exact::either(kept60[j][e], kept61[j][e]);
      float v88[1];
      if ((((i) / 573)) < 1) {
        const auto p81 = load_pack<ElementF32, 1>(in0 + (u * 573 + i));
        const auto p82 = load_pack<ElementF16, 1>(in1 + (u * 573 + i));
        float v83[1];
        SINTER_EACH(1) v83[e] = Exact::mul(p81[e], p82[e]);
        float v84[1];
        SINTER_EACH(1) v84[e] = Exact::abs(v83[e]);
        float v85[1];
        SINTER_EACH(1) v85[e] = Exact::add(v84[e], 0x1p-1f);
        float v86[1];
        SINTER_EACH(1) v86[e] = Exact::reciprocal(v85[e]);
        SINTER_EACH(1) v88[e] = v86[e];
      } else {
        const auto p87 = load_pack<ElementF32, 1>(in0 + (u * 573 + i + -573));
        SINTER_EACH(1) v88[e] = p87[e];
      }
      float v89[1];
      SINTER_EACH(1) v89[e] = rounded<ElementF16>(v88[e]);
      float v90[1];
      SINTER_EACH(1) v90[e] = Exact::mul(kept58[j][e], kept59[j][e]);
      float v91[1];
      SINTER_EACH(1) v91[e] = (v80[e] ? v89[e] : v90[e]);
      float v92[1];
      SINTER_EACH(1) v92[e] = Fast::add(v91[e], 0x1p-1f);
      float v93[1];
      SINTER_EACH(1) v93[e] = Fast::relu(v92[e]);
      float w94[1];
      SINTER_EACH(1) w94[e] = v93[e];
      if (live) store_pack<ElementF16, 1>(out1 + (u * 1146 + i), w94);
      }
    }
    }
  }
  }
  leave_columns<Sum, float, 512, 512, 4, 1, 1, 2>(column21,
      reinterpret_cast<float*>(shared_columns), own_part<float, 4, 2>(scratch + 0));
  grid_barrier(barrier);
  join_all_columns<Sum, float, 512, 4, 2>(reinterpret_cast<const float*>(scratch + 0),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(shared_columns + 8192), mean_rest(units)});
  }
  {
  const long long first = blockIdx.x / 4, span = (gridDim.x / 4) * 4;
  const int rounds = static_cast<int>(first < units ? (units - 1 - first) / span + 1 : 0);
  for (int turn = (rounds - 1) * 4; turn >= 0; turn -= 4) {
    const long long base = first + turn * (gridDim.x / 4);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 4);
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 4 + rank) * 16 + t / 32) * 1;
      if (i < 2) {
      float v105[1];
      SINTER_EACH(1) v105[e] = Largest::empty(float{});
      #pragma unroll 11
      for (int k95t = 0; k95t < 18; ++k95t) {
        const int k95 = k95t * 32 + static_cast<int>(threadIdx.x) % 32;
        if (k95 >= 573) continue;
        float v103[1];
        if ((i) < 1) {
          float v96[1];
          SINTER_EACH(1) v96[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k95)]);
          float v97[1];
          SINTER_EACH(1) v97[e] = ElementF16::word(in1[(u * 573 + (i + e) * 573 + k95)]);
          float v98[1];
          SINTER_EACH(1) v98[e] = Exact::mul(v96[e], v97[e]);
          float v99[1];
          SINTER_EACH(1) v99[e] = Exact::abs(v98[e]);
          float v100[1];
          SINTER_EACH(1) v100[e] = Exact::add(v99[e], 0x1p-1f);
          float v101[1];
          SINTER_EACH(1) v101[e] = Exact::reciprocal(v100[e]);
          SINTER_EACH(1) v103[e] = v101[e];
        } else {
          float v102[1];
          SINTER_EACH(1) v102[e] = ElementF32::word(in0[(u * 573 + (i + e) * 573 + k95 + -573)]);
          SINTER_EACH(1) v103[e] = v102[e];
        }
        float v104[1];
        SINTER_EACH(1) v104[e] = rounded<ElementF16>(v103[e]);
        SINTER_EACH(1) v105[e] = Largest::join<float>(v105[e], v104[e]);
      }
      SINTER_EACH(1) v105[e] = join_lanes<Largest, 32>(v105[e]);
      float v106[1];
      SINTER_EACH(1) v106[e] = Exact::erf(v105[e]);
      float v107[1];
      SINTER_EACH(1) v107[e] = Exact::abs(v106[e]);
      float v108[1];
      SINTER_EACH(1) v108[e] = Exact::add(v107[e], 0x1p-1f);
      float v109[1];
      SINTER_EACH(1) v109[e] = Exact::rsqrt(v108[e]);
      float v110[1];
      SINTER_EACH(1) v110[e] = Exact::tanh(v109[e]);
      float v111[1];
      SINTER_EACH(1) v111[e] = Exact::add(v109[e], 0x1p-1f);
      const auto p112 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(shared_columns + 8192) + (i));
      float v113[1];
      SINTER_EACH(1) v113[e] = Fast::sub(v111[e], p112[e]);
      float v114[1];
      SINTER_EACH(1) v114[e] = Fast::mul(v110[e], v113[e]);
      float w115[1];
      SINTER_EACH(1) w115[e] = v114[e];
      if (live && static_cast<int>(threadIdx.x) % 32 == 0) store_pack<ElementBF16, 1>(out0 + (u * 2 + i), w115);
      }
    }
  }
  }
  }
}

}  // namespace sinter
