// block 1024 unit 256 vec 4 x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(1024, 1)
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
  using Group = UnitGroup<1024, 256, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 256;
  const long long units = 1ll * m;
  {
  float seen6 = 0.0f;
  Moments column6[1][4];
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(4) column6[j][e] = JoinMoments::empty(Moments{});
  for (long long base = blockIdx.x * 4ll; base < units; base += (gridDim.x * 4ll) * 4) {
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 4ll) + static_cast<int>(threadIdx.x) / 256;
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 4;
      {
      const auto p15 = load_pack<ElementBF16, 4>(in0 + (u * 1024 + i));
      if (live && j == 0) seen6 += 1.0f;
      const float s16 = live ? reciprocal_approx(seen6) : 0.0f;
      SINTER_EACH(4) column6[j][e].take(live ? p15[e] : column6[j][e].mean, s16);
      }
    }
  }
  }
  #pragma unroll
  for (int j = 0; j < 1; ++j)
    SINTER_EACH(4) column6[j][e].count = seen6;
  leave_columns<JoinMoments, Moments, 1024, 256, 1, 1, 4, 1024>(column6,
      reinterpret_cast<Moments*>(shared_columns), own_part<Moments, 1, 1024>(scratch + 0));
  grid_barrier(barrier);
  join_columns<JoinMoments, Moments, 1024, 1, 1024>(reinterpret_cast<const Moments*>(scratch + 0),
      reinterpret_cast<Moments*>(shared_columns), MomentResults{reinterpret_cast<float*>(out0), reinterpret_cast<float*>(out1), 1.0f / static_cast<float>(units)});
  grid_barrier(barrier);
  }
  {
  const long long first = blockIdx.x * 4ll, span = (gridDim.x * 4ll) * 4;
  const int rounds = static_cast<int>(first < units ? (units - 1 - first) / span + 1 : 0);
  for (int turn = (rounds - 1) * 4; turn >= 0; turn -= 4) {
    const long long base = first + turn * (gridDim.x * 4ll);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const long long mine = base + q * (gridDim.x * 4ll) + static_cast<int>(threadIdx.x) / 256;
    const bool live = mine < units;
    const long long u = live ? mine : units - 1;
    #pragma unroll 4
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 256 + t) * 4;
      {
      const auto p17 = load_pack<ElementBF16, 4>(in0 + (u * 1024 + i));
      const auto p18 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(out0) + (i));
      float v19[4];
      SINTER_EACH(4) v19[e] = Exact::sub(p17[e], p18[e]);
      const auto p20 = load_pack<ElementF32, 4>(reinterpret_cast<const float*>(out1) + (i));
      float v21[4];
      SINTER_EACH(4) v21[e] = Exact::add(p20[e], 0x1.4f8b58p-17f);
      float v22[4];
      SINTER_EACH(4) v22[e] = Exact::rsqrt(v21[e]);
      float v23[4];
      SINTER_EACH(4) v23[e] = Exact::mul(v19[e], v22[e]);
      const auto p24 = load_pack<ElementF32, 4>(in1 + (i));
      float v25[4];
      SINTER_EACH(4) v25[e] = Exact::mul(v23[e], p24[e]);
      const auto p26 = load_pack<ElementF32, 4>(in2 + (i));
      float v27[4];
      SINTER_EACH(4) v27[e] = Fast::add(v25[e], p26[e]);
      float v28[4];
      SINTER_EACH(4) v28[e] = Fast::relu(v27[e]);
      float w29[4];
      SINTER_EACH(4) w29[e] = v28[e];
      if (live) store_pack<ElementBF16, 4>(out2 + (u * 1024 + i), w29);
      }
    }
  }
  }
  }
}

}  // namespace sinter
