// block 256 unit 32 vec 8 column-cluster 8 join all keep+alike hold 110592 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_stitch(const u16* __restrict__ in0,
    const float* __restrict__ in1,
    const float* __restrict__ in2,
    float* __restrict__ out0,
    float* __restrict__ out1,
    u16* __restrict__ out2,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 32, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 110592));
  unsigned char* const shared_columns = dynamic_shared + 110592 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 32;
  const long long units = 25088ll;
  {
  float seen6 = 0.0f;
  Moments column6[1][8];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(8) column6[j][e] = JoinMoments::empty(Moments{});
  int turn = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += (gridDim.x * 8ll) * 4, turn += 4) {
    Pack<ElementBF16, 8> kept19s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept19 = kept19s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
        kept19[j] = load_pack<ElementBF16, 8>(in0 + (u * 256 + i));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept19 = kept19s[q];
    if (base + q * (gridDim.x * 8ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
        if (live) hold_pack(dynamic_shared + 0, (round * 1 + j) * 256 + threadIdx.x, kept19[j]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      if (live && j == 0) seen6 += 1.0f;
      const float s20 = live ? reciprocal_approx(seen6) : 0.0f;
      SINTER_EACH(8) column6[j][e].take(live ? kept19[j][e] : column6[j][e].mean, s20);
      }
    }
    }
  }
  }
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(8) column6[j][e].count = seen6;
  leave_columns<JoinMoments, Moments, 256, 32, 1, 1, 8, 256>(column6,
      reinterpret_cast<Moments*>(shared_columns), reinterpret_cast<Moments*>(shared_columns + 32768));
  cluster_arrive();
  cluster_wait();
  gather_columns<JoinMoments, Moments, 256, 8, 256>(reinterpret_cast<Moments*>(shared_columns + 32768),
      own_part<Moments, 8, 256>(scratch + 0));
  grid_barrier(barrier);
  join_all_columns<JoinMoments, Moments, 256, 8, 256>(reinterpret_cast<const Moments*>(scratch + 0),
      reinterpret_cast<Moments*>(shared_columns), MomentResults{reinterpret_cast<float*>(shared_columns + 37888), reinterpret_cast<float*>(shared_columns + 36864), 1.0f / static_cast<float>(units)});
  }
  {
  float alike22[1][8];
  float alike24[1][8];
  float alike28[1][8];
  float alike30[1][8];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      const auto p23 = load_pack<ElementF32, 8>(reinterpret_cast<const float*>(shared_columns + 37888) + (i));
      SINTER_EACH(8) alike22[j][e] = p23[e];
      const auto p25 = load_pack<ElementF32, 8>(reinterpret_cast<const float*>(shared_columns + 36864) + (i));
      float v26[8];
      SINTER_EACH(8) v26[e] = Exact::add(p25[e], 0x1.4f8b58p-17f);
      float v27[8];
      SINTER_EACH(8) v27[e] = Exact::rsqrt(v26[e]);
      SINTER_EACH(8) alike24[j][e] = v27[e];
      const auto p29 = load_pack<ElementF32, 8>(in1 + (i));
      SINTER_EACH(8) alike28[j][e] = p29[e];
      const auto p31 = load_pack<ElementF32, 8>(in2 + (i));
      SINTER_EACH(8) alike30[j][e] = p31[e];
      }
    }
  int turn = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += (gridDim.x * 8ll) * 4, turn += 4) {
    Pack<ElementBF16, 8> kept21s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept21 = kept21s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
        kept21[j] = take_pack<ElementBF16, 8>(dynamic_shared + 0, (round * 1 + j) * 256 + threadIdx.x);
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept21 = kept21s[q];
    if (base + q * (gridDim.x * 8ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float v32[8];
      SINTER_EACH(8) v32[e] = Exact::sub(kept21[j][e], alike22[j][e]);
      float v33[8];
      SINTER_EACH(8) v33[e] = Exact::mul(v32[e], alike24[j][e]);
      float v34[8];
      SINTER_EACH(8) v34[e] = Exact::mul(v33[e], alike28[j][e]);
      float v35[8];
      SINTER_EACH(8) v35[e] = Fast::add(v34[e], alike30[j][e]);
      float v36[8];
      SINTER_EACH(8) v36[e] = Fast::relu(v35[e]);
      float w37[8];
      SINTER_EACH(8) w37[e] = v36[e];
      if (live) store_pack<ElementBF16, 8>(out2 + (u * 256 + i), w37);
      }
    }
    }
  }
  }
  for (long long base = blockIdx.x * 2048ll, count = 256ll; base < count;
       base += gridDim.x * 2048ll) {
    constexpr bool live = true;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int n = static_cast<int>(base + (j * 256 + static_cast<int>(threadIdx.x)) * 8);
      __builtin_assume(n >= 0);
      if (n < count) {
      const auto p38 = load_pack<ElementF32, 8>(reinterpret_cast<const float*>(shared_columns + 37888) + (n));
      float w39[8];
      SINTER_EACH(8) w39[e] = p38[e];
      if (live) store_pack<ElementF32, 8>(out0 + (n), w39);
      const auto p40 = load_pack<ElementF32, 8>(reinterpret_cast<const float*>(shared_columns + 36864) + (n));
      float w41[8];
      SINTER_EACH(8) w41[e] = p40[e];
      if (live) store_pack<ElementF32, 8>(out1 + (n), w41);
      }
    }
  }
  }
}

}  // namespace sinter
