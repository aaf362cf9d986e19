// The norm of a product's rows, 1 / sqrt(mean of the squares + eps), from the rows that pass
// through the ring. The consumers sum squares while their wgmmas run, and multiply the accumulators
// by the norms as by other factors of rows.
#pragma once
#include "ptx/approx.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/scaling.cuh"

namespace sinter {

// Where a norm's sums lie: for each subtile along K of a stage one f32 of each row of the tile.
template <class Config, class P>
constexpr int kRowSquareBytes = P::kSubtiles* Config::kBlockM * 4;

// The scaling of such a product. A tile's sums are in shared memory when its accumulators are
// scaled.
template <class Config>
struct RowNorms {
  using P = typename Config::First;
  static constexpr bool kPresent = true, kColumns = false;
  using Factor = Float32;
  float constant;
  u32 squares;    // shared address
  int first = 0;  // the tile's first row

  static SINTER_DEVICE RowNorms of(const void*, float constant, int, int = 0) {
    return {constant, 0};
  }
  // Of a row behind the tile's last, that of some row of the tile.
  SINTER_DEVICE float at(int row) const {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < P::kSubtiles; ++s) {
      const int slot = s * Config::kBlockM + (row - first) % Config::kBlockM;
      sum += __uint_as_float(load_shared_word(squares + 4 * slot));
    }
    return constant * rsqrt_approx(sum * (1.0f / P::kK) + Config::kNormEps);
  }
};

template <class Scaling>
constexpr bool kTakesNorms = false;
template <class Config>
constexpr bool kTakesNorms<RowNorms<Config>> = true;

// Nothing is loaded before the product: the sums are not there yet.
template <class Config>
struct HeldScaling<RowNorms<Config>> {
  const RowNorms<Config>& scaling;
  int row;
  SINTER_DEVICE HeldScaling(const RowNorms<Config>& scaling, int row, WarpgroupPlace place)
      : scaling(scaling), row(row + place.m * kWarpgroupRows + accumulator_row(place.thread)) {}
  SINTER_DEVICE float of_half(int half) const { return scaling.at(row + 8 * half); }
};

// One consumer thread's part of the sums of a tile. All consumer threads of a block take the
// stage's 16-byte chunks in turns. A row has eight neighbouring chunks of a subtile, in some order.
template <class Config, class P>
class RowSquares {
 public:
  static constexpr bool kReads = true;

  SINTER_DEVICE RowSquares() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums_[i] = 0;
  }

  // Adds the chunks of the stage whose rows lie at shared address `rows`.
  SINTER_DEVICE void add(u32 rows) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      if (!exists(i)) continue;
      const Float4 v = load_shared(rows + kVectorBytes * chunk(i));
      sums_[i] = add_pair(add_pair(sums_[i], v.x), v.y);
      sums_[i] = add_pair(add_pair(sums_[i], v.z), v.w);
    }
  }

  // Puts the sums at shared address `squares`, once nobody reads the last tile's any more. All
  // consumer threads; it waits for them.
  SINTER_DEVICE void publish(u32 squares) const {
    named_barrier(1, kThreads);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      float sum = sums_[i];
#pragma unroll
      for (int lanes = 1; lanes < 8; lanes *= 2)
        sum += __uint_as_float(__shfl_xor_sync(0xFFFFFFFFu, __float_as_uint(sum), lanes));
      if (threadIdx.x % 8 == 0 && exists(i))
        store_shared(squares + 4 * (chunk(i) / 8), __float_as_uint(sum));
    }
    named_barrier(1, kThreads);
  }

 private:
  using Element = typename P::Element;
  static constexpr int kThreads = 128 * Config::kWarpgroupsM * Config::kWarpgroupsN;
  static constexpr int kChunks = P::kRowsBytes / kVectorBytes;
  static constexpr int kSums = ceil_div(kChunks, kThreads);

  static SINTER_DEVICE int chunk(int i) { return i * kThreads + threadIdx.x - 128; }
  // The same for all lanes of a warp.
  static SINTER_DEVICE bool exists(int i) {
    return kChunks % kThreads == 0 || i + 1 < kSums || chunk(i) < kChunks;
  }
  static SINTER_DEVICE float add_pair(float sum, float pair) {
    const u32 word = __float_as_uint(pair);
    const float low = Element::low(word), high = Element::high(word);
    return sum + low * low + high * high;
  }

  float sums_[kSums];
};

}  // namespace sinter
