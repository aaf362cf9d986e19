// block 256 unit 16 vec 2 join all keep+alike x1
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 1)
sinter_stitch(const unsigned char* __restrict__ in0,
    const u16* __restrict__ in1,
    const u16* __restrict__ in2,
    u16* __restrict__ out0,
    unsigned char* scratch,
    u32* barrier,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<256, 16, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 16;
  const long long units = 37ll;
  {
  float column13[7][2];
  #pragma unroll
  for (int j = 0; j < 7; ++j)
    SINTER_EACH(2) column13[j][e] = Smallest::empty(float{});
  for (long long base = blockIdx.x * 16ll; base < units; base += gridDim.x * 16ll) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 16;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementPred, 2> kept15[7];
    Pack<ElementBF16, 2> kept16[7];
    #pragma unroll
    for (int j = 0; j < 7; ++j) {
      const int i = (j * 16 + t) * 2;
      if (i < 222) {
        kept15[j] = load_pack<ElementPred, 2>(in0 + (u * 222 + i));
        kept16[j] = load_pack<ElementBF16, 2>(in1 + (u * 222 + i));
      }
    }
    #pragma unroll
    for (int j = 0; j < 7; ++j) {
      const int i = (j * 16 + t) * 2;
      if (i < 222) {
      float v17[2];
      SINTER_EACH(2) v17[e] = Exact::cos(kept16[j][e]);
      float v18[2];
      SINTER_EACH(2) v18[e] = rounded<ElementBF16>(v17[e]);
      float v19[2];
      SINTER_EACH(2) v19[e] = Exact::abs(v18[e]);
      float v20[2];
      SINTER_EACH(2) v20[e] = Exact::add(v19[e], 0x1p-1f);
      float v21[2];
      SINTER_EACH(2) v21[e] = Exact::sqrt(v20[e]);
      float v22[2];
      SINTER_EACH(2) v22[e] = Exact::add(v21[e], kept16[j][e]);
      float v23[2];
      SINTER_EACH(2) v23[e] = (kept15[j][e] ? v22[e] : kept16[j][e]);
      float v24[2];
      SINTER_EACH(2) v24[e] = Exact::mul(v23[e], v21[e]);
      if (live) SINTER_EACH(2) column13[j][e] = Smallest::join<float>(column13[j][e], v24[e]);
      }
    }
  }
  leave_columns<Smallest, float, 256, 16, 1, 7, 2, 222>(column13,
      reinterpret_cast<float*>(shared_columns), own_part<float, 1, 222>(scratch + 0));
  grid_barrier(barrier);
  join_all_columns<Smallest, float, 256, 1, 222>(reinterpret_cast<const float*>(scratch + 0),
      reinterpret_cast<float*>(shared_columns), ColumnResults<float>{reinterpret_cast<float*>(shared_columns + 14208), 1});
  }
  {
  for (long long base = blockIdx.x * 512ll, count = 222ll; base < count;
       base += gridDim.x * 512ll) {
    constexpr bool live = true;
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int n = static_cast<int>(base + (j * 256 + static_cast<int>(threadIdx.x)) * 2);
      __builtin_assume(n >= 0);
      if (n < count) {
      const auto p25 = load_pack<ElementF32, 2>(reinterpret_cast<const float*>(shared_columns + 14208) + (n));
      const auto p26 = load_pack<ElementBF16, 2>(in2 + (n));
      float v27[2];
      SINTER_EACH(2) v27[e] = Exact::mul(p25[e], p26[e]);
      float v28[2];
      SINTER_EACH(2) v28[e] = Fast::add(v27[e], p25[e]);
      float w29[2];
      SINTER_EACH(2) w29[e] = v28[e];
      if (live) store_pack<ElementBF16, 2>(out0 + (n), w29);
      }
    }
  }
  }
}

}  // namespace sinter
