// block 128 unit 4 vec 8 keep x5
#include "stitch/codes.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(128, 5)
sinter_stitch(const u16* __restrict__ in0,
    unsigned char* __restrict__ out0,
    float* __restrict__ out1,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  using Group = UnitGroup<128, 4, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const long long units = 32ll * m;
  {
  for (long long base = blockIdx.x * 32ll; base < units; base += gridDim.x * 32ll) {
    constexpr bool live = true;
    const long long u = base + static_cast<int>(threadIdx.x) / 4;
    Pack<ElementBF16, 8> kept11[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 4 + t) * 8;
      {
        kept11[j] = load_pack<ElementBF16, 8>(in0 + (u * 128 + i));
      }
    }
    float row4 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 4 + t) * 8;
      {
      float v12[8];
      SINTER_EACH(8) v12[e] = Exact::abs(kept11[j][e]);
      float w13[8];
      SINTER_EACH(8) w13[e] = v12[e];
      row4 = Largest::join<float>(row4, fold<Largest>(w13));
      }
    }
    group.reduce(Partial<Largest, float>{row4});
    const float s14 = Exact::max(row4, 0x1.b7cdfep-34f);
    const float s15 = Exact::div(s14, 0x1.cp+8f);
    const float s16 = ceil_pow2(s15);
    const float s17 = Exact::reciprocal(s16);
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = (j * 4 + t) * 8;
      {
      float v18[8];
      SINTER_EACH(8) v18[e] = Fast::mul(kept11[j][e], s17);
      float w19[8];
      SINTER_EACH(8) w19[e] = v18[e];
      if (live) store_pack<ElementE4M3, 8>(out0 + (u * 128 + i), w19);
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int i = (j * 4 + t) * 1;
      if (i < 1) {
      float w20[1];
      SINTER_EACH(1) w20[e] = s16;
      if (live) SINTER_EACH(1) out1[(u)] = ElementF32::stored(w20[e]);
      }
    }
  }
  }
}

}  // namespace sinter
