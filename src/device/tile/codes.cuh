// Results that are stored as e4m3 codes: x over a scale, saturated. The scale is the chain's, of
// each 128 columns of a row, or one that is given. A tile's results are f32 in shared memory first,
// so that all layouts of accumulators, and ranks that share K, end alike.
#pragma once
#include "ptx/element.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/code_scale.cuh"
#include "tile/product.cuh"

namespace sinter {

// For results that are stored as they are.
struct NoCodes {
  static constexpr bool kPresent = false;
  template <class P>
  static constexpr int staged_bytes() {
    return 0;
  }
};

// The rows of a tile that a block owns, in shared memory. Stands in for a GlobalWriter of f32.
template <class P>
struct StagedResults {
  using Element = Float32;
  static constexpr int kStride = 4 * (P::kBlockN + 4);  // so that rows begin in different banks
  u32 address;
  int row, column;  // of the matrix, of the first result
  int existing;     // rows that exist

  SINTER_DEVICE u32 at(int tile_row, int tile_column) const {
    return address + tile_row * kStride + 4 * tile_column;
  }
  SINTER_DEVICE void pair(int r, int c, FloatPair v) const {
    store_shared(at(r - row, c - column), v.low, v.high);
  }
  SINTER_DEVICE void element(int r, int c, float v) const {
    store_shared(at(r - row, c - column), __float_as_uint(v));
  }
};

// The codes of four results of one row, the first in the low bits.
SINTER_DEVICE u32 four_codes(Float4 x, float inverse) {
  const u32 low = FloatE4M3::pack(x.x * inverse, x.y * inverse),
            high = FloatE4M3::pack(x.z * inverse, x.w * inverse);
  return low | high << 16;
}

// One scale for all, in memory.
struct GivenScale {
  static constexpr bool kPresent = true;
  template <class P>
  static constexpr int staged_bytes() {
    return P::kOwnerRows * StagedResults<P>::kStride;
  }
  float inverse;

  template <class Arguments>
  static SINTER_DEVICE GivenScale of(const Arguments& args) {
    return {1.0f / *args.given_scale};
  }
  template <class P>
  SINTER_DEVICE u32 codes(Float4 x, int, int) const {
    return four_codes(x, inverse);
  }
};

// A scale of each 128 columns of a row (code_scale.cuh).
template <bool kPow2>
struct GroupScales {
  static constexpr bool kPresent = true;
  template <class P>
  static constexpr int staged_bytes() {
    return P::kOwnerRows * StagedResults<P>::kStride;
  }
  float* scales;  // [rows][kN / 128]
  float eps, bound;

  template <class Arguments>
  static SINTER_DEVICE GroupScales of(const Arguments& args) {
    return {args.scale_out, args.eps, args.bound};
  }
  // A warp has the four results of each lane; all lanes call.
  template <class P>
  SINTER_DEVICE u32 codes(Float4 x, int row, int column) const {
    static_assert(P::kBlockN % 128 == 0 && P::kN % 128 == 0, "a tile has whole groups");
    const u32 largest = warp_max(
        larger(larger(magnitude(x.x), magnitude(x.y)), larger(magnitude(x.z), magnitude(x.w))));
    const CodeScale of = code_scale<kPow2>(largest, eps, bound);
    if (threadIdx.x % 32 == 0)
      scales[row * static_cast<long long>(P::kN / 128) + column / 128] = of.scale;
    return four_codes(x, of.inverse);
  }
};

// Stores the codes of staged results in `out`, whose rows are `stride` apart. All consumer threads
// call; they wait for all results before, and for each other behind where `again`.
template <class Config, class P, class Rule>
SINTER_DEVICE void store_codes(const StagedResults<P>& staged, const Rule& rule, unsigned char* out,
                               long long stride, bool again) {
  constexpr int kThreads = 128 * Config::kWarpgroupsM * Config::kWarpgroupsN;
  constexpr u32 kBarrier = 2;
  static_assert(P::kN % 4 == 0, "lanes store four codes");
  const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
  named_barrier(kBarrier, kThreads);
  jitter();
#pragma unroll 2
  for (int r = warp; r < P::kOwnerRows; r += kThreads / 32) {
    if (r >= staged.existing) break;
#pragma unroll
    for (int group = 0; group < P::kBlockN; group += 128) {
      const int c = group + 4 * lane, row = staged.row + r, column = staged.column + c;
      if (staged.column + group >= P::kN) break;
      if (P::kBlockN % 128 != 0 && c >= P::kBlockN) break;
      const u32 codes = rule.template codes<P>(load_shared(staged.at(r, c)), row, column);
      if (column < P::kN) *reinterpret_cast<u32*>(out + row * stride + column) = codes;
    }
  }
  if (again) named_barrier(kBarrier, kThreads);
}

}  // namespace sinter
