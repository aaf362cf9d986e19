// block 512 unit 64 vec 4 column-cluster 8 keep+alike hold 110592 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(512, 1)
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
  using Group = UnitGroup<512, 64, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 110592));
  unsigned char* const shared_columns = dynamic_shared + 110592 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 64;
  const long long units = 25088ll;
  {
  float seen6 = 0.0f;
  Moments column6[1][4];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(4) column6[j][e] = JoinMoments::empty(Moments{});
  int turn = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += (gridDim.x * 8ll) * 4, turn += 4) {
    Pack<ElementBF16, 4> kept15s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 64;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept15 = kept15s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
        kept15[j] = load_pack<ElementBF16, 4>(in0 + (u * 256 + i));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 64;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept15 = kept15s[q];
    if (base + q * (gridDim.x * 8ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
        if (live) hold_pack(dynamic_shared + 0, (round * 1 + j) * 512 + threadIdx.x, kept15[j]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      if (live && j == 0) seen6 += 1.0f;
      const float s16 = live ? reciprocal_approx(seen6) : 0.0f;
      SINTER_EACH(4) column6[j][e].take(live ? kept15[j][e] : column6[j][e].mean, s16);
      }
    }
    }
  }
  }
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(4) column6[j][e].count = seen6;
  leave_columns<JoinMoments, Moments, 512, 64, 1, 1, 4, 256>(column6,
      reinterpret_cast<Moments*>(shared_columns), reinterpret_cast<Moments*>(shared_columns + 32768));
  cluster_arrive();
  cluster_wait();
  gather_columns<JoinMoments, Moments, 512, 8, 256>(reinterpret_cast<Moments*>(shared_columns + 32768),
      own_part<Moments, 8, 256>(scratch + 0));
  grid_barrier(barrier);
  join_columns<JoinMoments, Moments, 512, 8, 256>(reinterpret_cast<const Moments*>(scratch + 0),
      reinterpret_cast<Moments*>(shared_columns), MomentResults{reinterpret_cast<float*>(out0), reinterpret_cast<float*>(out1), 1.0f / static_cast<float>(units)});
  grid_barrier(barrier);
  }
  {
  float alike18[1][4];
  float alike20[1][4];
  float alike24[1][4];
  float alike26[1][4];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      const auto p19 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(out0) + (i));
      SINTER_EACH(4) alike18[j][e] = p19[e];
      const auto p21 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(out1) + (i));
      float v22[4];
      SINTER_EACH(4) v22[e] = Exact::add(p21[e], 0x1.4f8b58p-17f);
      float v23[4];
      SINTER_EACH(4) v23[e] = Exact::rsqrt(v22[e]);
      SINTER_EACH(4) alike20[j][e] = v23[e];
      const auto p25 = load_pack<ElementF32, 4>(in1 + (i));
      SINTER_EACH(4) alike24[j][e] = p25[e];
      const auto p27 = load_pack<ElementF32, 4>(in2 + (i));
      SINTER_EACH(4) alike26[j][e] = p27[e];
      }
    }
  int turn = 0;
  for (long long base = blockIdx.x * 8ll; base < units; base += (gridDim.x * 8ll) * 4, turn += 4) {
    Pack<ElementBF16, 4> kept17s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 64;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept17 = kept17s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
        kept17[j] = take_pack<ElementBF16, 4>(dynamic_shared + 0, (round * 1 + j) * 512 + threadIdx.x);
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 8ll) + static_cast<int>(threadIdx.x) / 64;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 27 ? turn + q : 26;
    auto& kept17 = kept17s[q];
    if (base + q * (gridDim.x * 8ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 64 + t) * 4;
      {
      float v28[4];
      SINTER_EACH(4) v28[e] = Exact::sub(kept17[j][e], alike18[j][e]);
      float v29[4];
      SINTER_EACH(4) v29[e] = Exact::mul(v28[e], alike20[j][e]);
      float v30[4];
      SINTER_EACH(4) v30[e] = Exact::mul(v29[e], alike24[j][e]);
      float v31[4];
      SINTER_EACH(4) v31[e] = Fast::add(v30[e], alike26[j][e]);
      float v32[4];
      SINTER_EACH(4) v32[e] = Fast::relu(v31[e]);
      float w33[4];
      SINTER_EACH(4) w33[e] = v32[e];
      if (live) store_pack<ElementBF16, 4>(out2 + (u * 256 + i), w33);
      }
    }
    }
  }
  }
  }
}

}  // namespace sinter
