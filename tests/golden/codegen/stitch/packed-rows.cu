// block 256 x2 packing 4 parts: (unit 256 vec 8 keep+values), (unit 32 vec 8 keep+values), (unit 32 vec 2 keep+values), (vec 1 chunks 1)
#include "stitch/stitch.cuh"

namespace sinter {

extern __shared__ __align__(16) unsigned char dynamic_shared[];

extern "C" __global__ void __launch_bounds__(256, 2)
sinter_stitch(const float* __restrict__ operand0,
    const float* __restrict__ operand1,
    const float* __restrict__ operand2,
    const float* __restrict__ operand3,
    u16* __restrict__ operand4,
    u16* __restrict__ operand5,
    u16* __restrict__ operand6,
    u16* __restrict__ operand7,
    int m) {
  wait_for_predecessors();
  launch_dependents();
  if (blockIdx.x < 64u) {  // 1 parts from block 0
  const float* __restrict__ in0;
  u16* __restrict__ out0;
  long long size0;
  unsigned first, blocks;
    in0 = operand1; out0 = operand5; size0 = 64ll; first = 0u; blocks = 64u;
  const unsigned block = blockIdx.x - first;
  using Group = UnitGroup<256, 256, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 256;
  const long long units = size0;
  {
  for (long long base = block * 1ll; base < units; base += blocks * 1ll) {
    constexpr bool live = true;
    const int u = static_cast<int>(base);
    __builtin_assume(u >= 0);
    Pack<ElementF32, 8> kept11[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 256 + t) * 8;
      {
        kept11[j] = load_pack<ElementF32, 8>(in0 + (u * 4096 + i));
      }
    }
    float kept12[2][8];
    float row1 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 256 + t) * 8;
      {
      float w13[8];
      SINTER_EACH(8) w13[e] = kept11[j][e];
      row1 = Largest::join<float>(row1, fold<Largest>(w13));
      }
    }
    group.reduce(Partial<Largest, float>{row1});
    float row5 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 256 + t) * 8;
      {
      float v14[8];
      SINTER_EACH(8) v14[e] = Exact::sub(kept11[j][e], row1);
      float v15[8];
      SINTER_EACH(8) v15[e] = Fast::exp(v14[e]);
      SINTER_EACH(8) kept12[j][e] = v15[e];
      float w16[8];
      SINTER_EACH(8) w16[e] = v15[e];
      row5 = Sum::join<float>(row5, fold<Sum>(w16));
      }
    }
    group.reduce(Partial<Sum, float>{row5});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 256 + t) * 8;
      {
      float v17[8];
      SINTER_EACH(8) v17[e] = Fast::div(kept12[j][e], row5);
      float w18[8];
      SINTER_EACH(8) w18[e] = v17[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 4096 + i), w18);
      }
    }
  }
  }
  } else if (blockIdx.x < 177u) {  // 1 parts from block 64
  const float* __restrict__ in0;
  u16* __restrict__ out0;
  long long size0;
  unsigned first, blocks;
    in0 = operand0; out0 = operand4; size0 = 900ll; first = 64u; blocks = 113u;
  const unsigned block = blockIdx.x - first;
  using Group = UnitGroup<256, 32, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 32;
  const long long units = size0;
  {
  for (long long base = block * 8ll; base < units; base += blocks * 8ll) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementF32, 8> kept11[3];
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 32 + t) * 8;
      {
        kept11[j] = load_pack<ElementF32, 8>(in0 + (u * 768 + i));
      }
    }
    float kept12[3][8];
    float row1 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float w13[8];
      SINTER_EACH(8) w13[e] = kept11[j][e];
      row1 = Largest::join<float>(row1, fold<Largest>(w13));
      }
    }
    group.reduce(Partial<Largest, float>{row1});
    float row5 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float v14[8];
      SINTER_EACH(8) v14[e] = Exact::sub(kept11[j][e], row1);
      float v15[8];
      SINTER_EACH(8) v15[e] = Fast::exp(v14[e]);
      SINTER_EACH(8) kept12[j][e] = v15[e];
      float w16[8];
      SINTER_EACH(8) w16[e] = v15[e];
      row5 = Sum::join<float>(row5, fold<Sum>(w16));
      }
    }
    group.reduce(Partial<Sum, float>{row5});
    #pragma unroll
    for (int j = 0; j < 3; ++j) {
      const int i = (j * 32 + t) * 8;
      {
      float v17[8];
      SINTER_EACH(8) v17[e] = Fast::div(kept12[j][e], row5);
      float w18[8];
      SINTER_EACH(8) w18[e] = v17[e];
      if (live) store_pack<ElementBF16, 8>(out0 + (u * 768 + i), w18);
      }
    }
  }
  }
  } else if (blockIdx.x < 215u) {  // 1 parts from block 177
  const float* __restrict__ in0;
  u16* __restrict__ out0;
  long long size0;
  unsigned first, blocks;
    in0 = operand2; out0 = operand6; size0 = 300ll; first = 177u; blocks = 38u;
  const unsigned block = blockIdx.x - first;
  using Group = UnitGroup<256, 32, 1, 1>;
  Group group(reinterpret_cast<u32*>(dynamic_shared));
  unsigned char* const shared_columns = dynamic_shared + Group::kScratchBytes;
  const int t = static_cast<int>(threadIdx.x) % 32;
  const long long units = size0;
  {
  for (long long base = block * 8ll; base < units; base += blocks * 8ll) {
    const long long mine = base + static_cast<int>(threadIdx.x) / 32;
    const bool live = mine < units;
    const int u = static_cast<int>(live ? mine : units - 1);
    __builtin_assume(u >= 0);
    Pack<ElementF32, 2> kept11[2];
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 2;
      if (i < 74) {
        kept11[j] = load_pack<ElementF32, 2>(in0 + (u * 74 + i));
      }
    }
    float kept12[2][2];
    float row1 = Largest::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 2;
      if (i < 74) {
      float w13[2];
      SINTER_EACH(2) w13[e] = kept11[j][e];
      row1 = Largest::join<float>(row1, fold<Largest>(w13));
      }
    }
    group.reduce(Partial<Largest, float>{row1});
    float row5 = Sum::empty(float{});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 2;
      if (i < 74) {
      float v14[2];
      SINTER_EACH(2) v14[e] = Exact::sub(kept11[j][e], row1);
      float v15[2];
      SINTER_EACH(2) v15[e] = Fast::exp(v14[e]);
      SINTER_EACH(2) kept12[j][e] = v15[e];
      float w16[2];
      SINTER_EACH(2) w16[e] = v15[e];
      row5 = Sum::join<float>(row5, fold<Sum>(w16));
      }
    }
    group.reduce(Partial<Sum, float>{row5});
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int i = (j * 32 + t) * 2;
      if (i < 74) {
      float v17[2];
      SINTER_EACH(2) v17[e] = Fast::div(kept12[j][e], row5);
      float w18[2];
      SINTER_EACH(2) w18[e] = v17[e];
      if (live) store_pack<ElementBF16, 2>(out0 + (u * 74 + i), w18);
      }
    }
  }
  }
  } else {  // 1 parts from block 215
  const float* __restrict__ in0;
  u16* __restrict__ out0;
  long long size0;
  unsigned first, blocks;
    in0 = operand3; out0 = operand7; size0 = 100000ll; first = 215u; blocks = 391u;
  const unsigned block = blockIdx.x - first;
  {
  for (long long base = block * 256ll, count = size0; base < count;
       base += blocks * 256ll) {
    constexpr bool live = true;
    Pack<ElementF32, 1> kept5[1];
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const long long mine = base + (j * 256 + static_cast<int>(threadIdx.x)) * 1;
      const int n = static_cast<int>(mine < count ? mine : count - 1);
      __builtin_assume(n >= 0);
      {
        kept5[j] = load_pack<ElementF32, 1>(in0 + (n));
      }
    }
    #pragma unroll
    for (int j = 0; j < 1; ++j) {
      const int n = static_cast<int>(base + (j * 256 + static_cast<int>(threadIdx.x)) * 1);
      __builtin_assume(n >= 0);
      if (n < count) {
      float v6[1];
      SINTER_EACH(1) v6[e] = Fast::abs(kept5[j][e]);
      float v7[1];
      SINTER_EACH(1) v7[e] = Fast::add(v6[e], 0x1p+0f);
      float v8[1];
      SINTER_EACH(1) v8[e] = Fast::sqrt(v7[e]);
      float w9[1];
      SINTER_EACH(1) w9[e] = v8[e];
      if (live) store_pack<ElementBF16, 1>(out0 + (n), w9);
      }
    }
  }
  }
  }
}

}  // namespace sinter
