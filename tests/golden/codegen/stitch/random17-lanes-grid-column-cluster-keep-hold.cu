// block 128 unit 2 vec 1 column-cluster 8 keep hold 768 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 1)
sinter_stitch(const u16* __restrict__ in0,
    const unsigned char* __restrict__ in1,
    u16* __restrict__ out0,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 2, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared + 768));
  unsigned char* const shared_columns = dynamic_shared + 768 + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 2;
  const long long units = 1391ll;
  {
  float column7[1][1];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(1) column7[j][e] = Sum::empty(float{});
  int turn = 0;
  for (long long base = blockIdx.x * 64ll; base < units; base += (gridDim.x * 64ll) * 4, turn += 4) {
    Pack<ElementBF16, 1> kept11s[4][1];
    Pack<ElementE4M3, 1> kept12s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 64ll) + static_cast<int>(threadIdx.x) / 2;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 2 ? turn + q : 1;
    auto& kept11 = kept11s[q];
    auto& kept12 = kept12s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 2 + t) * 1;
      {
        kept11[j] = load_pack<ElementBF16, 1>(in0 + (u * 2 + i));
        kept12[j] = load_pack<ElementE4M3, 1>(in1 + (i + ((u) % 13) * 2));
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 64ll) + static_cast<int>(threadIdx.x) / 2;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 2 ? turn + q : 1;
    auto& kept11 = kept11s[q];
    auto& kept12 = kept12s[q];
    if (base + q * (gridDim.x * 64ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 2 + t) * 1;
      {
        if (live) hold_pack(dynamic_shared + 0, (round * 1 + j) * 128 + threadIdx.x, kept11[j]);
        if (live) hold_pack(dynamic_shared + 512, (round * 1 + j) * 128 + threadIdx.x, kept12[j]);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 2 + t) * 1;
      {
      float v13[1];
      SINTER_EACH(1) v13[e] = Exact::mul(kept12[j][e], kept11[j][e]);
      const float s14 = mean_share(units);
      if (live) SINTER_EACH(1) column7[j][e] = fmaf(v13[e], s14, column7[j][e]);
      }
    }
    }
  }
  }
  leave_columns<Sum, float, 128, 2, 1, 1, 1, 2>(column7,
      reinterpret_cast<float*>(shared_columns), reinterpret_cast<float*>(shared_columns + 512));
  cluster_arrive();
  cluster_wait();
  gather_columns<Sum, float, 128, 8, 2>(reinterpret_cast<float*>(shared_columns + 512),
      own_part<float, 8, 2>(scratch + 0));
  grid_barrier(barrier);
  join_columns<Sum, float, 128, 8, 2>(reinterpret_cast<const float*>(scratch + 0),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(scratch + 256), mean_rest(units)});
  grid_barrier(barrier);
  }
  {
  int turn = 0;
  for (long long base = blockIdx.x * 64ll; base < units; base += (gridDim.x * 64ll) * 4, turn += 4) {
    Pack<ElementBF16, 1> kept15s[4][1];
    Pack<ElementE4M3, 1> kept16s[4][1];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 64ll) + static_cast<int>(threadIdx.x) / 2;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 2 ? turn + q : 1;
    auto& kept15 = kept15s[q];
    auto& kept16 = kept16s[q];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 2 + t) * 1;
      {
        kept15[j] = take_pack<ElementBF16, 1>(dynamic_shared + 0, (round * 1 + j) * 128 + threadIdx.x);
        kept16[j] = take_pack<ElementE4M3, 1>(dynamic_shared + 512, (round * 1 + j) * 128 + threadIdx.x);
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 64ll) + static_cast<int>(threadIdx.x) / 2;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    const int round = turn + q < 2 ? turn + q : 1;
    auto& kept15 = kept15s[q];
    auto& kept16 = kept16s[q];
    if (base + q * (gridDim.x * 64ll) < units) {
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 2 + t) * 1;
      {
      float v17[1];
      SINTER_EACH(1) v17[e] = Exact::add(kept16[j][e], 0x1p-1f);
      const auto p18 = load_pack<ElementF32, 1>(reinterpret_cast<const float*>(scratch + 256) + (i));
      float v19[1];
      SINTER_EACH(1) v19[e] = Fast::sub(v17[e], p18[e]);
      float v20[1];
      SINTER_EACH(1) v20[e] = Fast::mul(kept15[j][e], v19[e]);
      float w21[1];
      SINTER_EACH(1) w21[e] = v20[e];
      if (live) store_pack<ElementF16, 1>(out0 + (u * 2 + i), w21);
      }
    }
    }
  }
  }
  }
}

}  // namespace sinter
