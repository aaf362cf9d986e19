// block 256 unit 256 cluster 2 vec 2 keep+alike hold 64512 x1
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
  const int rank = static_cast<int>(cluster_rank());
  cluster_arrive_relaxed();
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 256, 2, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 64512));
  unsigned char* const shared_columns = dynamic_shared + 64512 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 256;
  const long long units = 1ll * m;
  {
  float seen6 = 0.0f;
  Moments column6[1][2];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(2) column6[j][e] = JoinMoments::empty(Moments{});
  int turn = 0;
  for (long long base = blockIdx.x / 2; base < units; base += (gridDim.x / 2) * 4, turn += 4) {
    Pack<ElementBF16, 2> kept15s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 2);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    const int round = turn + q;
    auto& kept15 = kept15s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
        kept15[j] = load_pack<ElementBF16, 2>(in0 + (u * 1024 + i));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 2);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    const int round = turn + q;
    auto& kept15 = kept15s[q];
    if (base + q * (gridDim.x / 2) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
        if (round < 60) hold_pack(dynamic_shared + 0, (round * 1 + j) * 256 + threadIdx.x, kept15[j]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
      if (live && j == 0) seen6 += 1.0f;
      const float s16 = live ? reciprocal_approx(seen6) : 0.0f;
      SINTER_EACH(2) column6[j][e].take(live ? kept15[j][e] : column6[j][e].mean, s16);
      }
    }
    }
  }
  }
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(2) column6[j][e].count = seen6;
  leave_columns<JoinMoments, Moments, 256, 256, 2, 1, 2, 1024>(column6,
      reinterpret_cast<Moments*>(shared_columns), own_part<Moments, 2, 1024>(scratch + 0));
  grid_barrier(barrier);
  join_columns<JoinMoments, Moments, 256, 2, 1024>(reinterpret_cast<const Moments*>(scratch + 0),
      reinterpret_cast<Moments*>(shared_columns), MomentResults{reinterpret_cast<float*>(out0), reinterpret_cast<float*>(out1), 1.0f / static_cast<float>(units)});
  grid_barrier(barrier);
  }
  {
  float alike18[1][2];
  float alike20[1][2];
  float alike24[1][2];
  float alike26[1][2];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
      const auto p19 = load_pack<ElementF32, 2>(reinterpret_cast<const float*>(out0) + (i));
      SINTER_EACH(2) alike18[j][e] = p19[e];
      const auto p21 = load_pack<ElementF32, 2>(reinterpret_cast<const float*>(out1) + (i));
      float v22[2];
      SINTER_EACH(2) v22[e] = Exact::add(p21[e], 0x1.4f8b58p-17f);
      float v23[2];
      SINTER_EACH(2) v23[e] = Exact::rsqrt(v22[e]);
      SINTER_EACH(2) alike20[j][e] = v23[e];
      const auto p25 = load_pack<ElementF32, 2>(in1 + (i));
      SINTER_EACH(2) alike24[j][e] = p25[e];
      const auto p27 = load_pack<ElementF32, 2>(in2 + (i));
      SINTER_EACH(2) alike26[j][e] = p27[e];
      }
    }
  const long long first = blockIdx.x / 2, span = (gridDim.x / 2) * 4;
  const int rounds = static_cast<int>(first < units ? (units - 1 - first) / span + 1 : 0);
  for (int turn = (rounds - 1) * 4; turn >= 0; turn -= 4) {
    const long long base = first + turn * (gridDim.x / 2);
    Pack<ElementBF16, 2> kept17s[4][1];
  if (turn < 60) {
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 2);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    const int round = turn + q;
    auto& kept17 = kept17s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
        kept17[j] = take_pack<ElementBF16, 2>(dynamic_shared + 0, (round * 1 + j) * 256 + threadIdx.x);
      }
    }
  }
  } else {
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 2);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    const int round = turn + q;
    auto& kept17 = kept17s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
        kept17[j] = load_pack<ElementBF16, 2>(in0 + (u * 1024 + i));
      }
    }
  }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x / 2);
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    const int round = turn + q;
    auto& kept17 = kept17s[q];
    if (base + q * (gridDim.x / 2) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = ((j * 2 + rank) * 256 + t) * 2;
      {
      float v28[2];
      SINTER_EACH(2) v28[e] = Exact::sub(kept17[j][e], alike18[j][e]);
      float v29[2];
      SINTER_EACH(2) v29[e] = Exact::mul(v28[e], alike20[j][e]);
      float v30[2];
      SINTER_EACH(2) v30[e] = Exact::mul(v29[e], alike24[j][e]);
      float v31[2];
      SINTER_EACH(2) v31[e] = Fast::add(v30[e], alike26[j][e]);
      float v32[2];
      SINTER_EACH(2) v32[e] = Fast::relu(v31[e]);
      float w33[2];
      SINTER_EACH(2) w33[e] = v32[e];
      if (live) store_pack<ElementBF16, 2>(out2 + (u * 1024 + i), w33);
      }
    }
    }
  }
  }
  }
}

}  // namespace sinter
