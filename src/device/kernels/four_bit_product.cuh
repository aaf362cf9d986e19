// Up to 32 rows times weights of four bits: one matrix, or gate and up, by mma.sync.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "tile/activation.cuh"
#include "tile/four_bit_sums.cuh"
#include "tile/four_bits.cuh"
#include "tile/layout.cuh"

namespace sinter {

extern __shared__ unsigned char dynamic_shared[];

// Weights are [n, k / 2] bytes, of which a byte has two neighbours of K. Scales and zeros are [n, k
// / kGroup]. Element 0 of an array is the matrix's, or gate's; element 1 is
// up's.
template <class Config>
struct FourBitOperands {
  const typename Config::Element::Stored* rows;  // [m, k]
  const TensorMap* weights[2];
  const typename Config::Scale::Stored* scales[2];
  const typename Config::Zero::Stored* zeros[2];
  typename Config::Result::Stored* out;  // [m, n]
};

// A block has kBlockN columns of each matrix and a part of K: all of it, or that of its rank in a
// cluster of kSplit. A warp has 16 columns and, of each step of kSlices * 128 of K, its slice. The
// sums of slices and ranks meet in shared memory, in one order. Other warps load the rows,
// in the order of K that unpacked weights have (pair_order).
template <class Config>
struct FourBitProduct {
  using Element = typename Config::Element;
  using Scale = typename Config::Scale;
  using Zero = typename Config::Zero;
  using Weights = FourBits<Element, Config::kForm>;
  static constexpr int kMatrices = Config::kPair ? 2 : 1;
  static constexpr int kTiles = Config::kTiles, kSlices = Config::kSlices;
  static constexpr int kStages = Config::kStages, kSplit = Config::kSplit;
  static constexpr int kRowTiles = Config::kBlockM / 8, kBlockN = 16 * kTiles;
  static constexpr int kWarps = kMatrices * kTiles * kSlices;
  static constexpr int kRowWarps = Config::kRowWarps;
  static constexpr int kThreads = 32 * (kWarps + kRowWarps);
  // A box has kSpan bytes of a column's K, as the swizzle.
  static constexpr int kSpan = kFourBitSpan, kBoxes = kSlices / 2;
  static constexpr int kBoxBytes = kBlockN * kSpan;
  static constexpr int kWeightBytes = kMatrices * kBoxes * kBoxBytes;
  static constexpr int kTileBytes = kFourBitPieceBytes;  // of 8 rows and a slice of K
  static constexpr int kStageBytes = kWeightBytes + kSlices * kRowTiles * kTileBytes;
  static constexpr int kSteps = ceil_div(Config::kK, 128 * kSlices);
  using Sums = FourBitSums<Config, 16>;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes;
  static_assert(Sums::kBytes <= kStages * kStageBytes, "sums take the place of stages");
  static_assert(kSlices % 2 == 0, "boxes have two slices");
  static_assert(Config::kK % 32 == 0 && Config::kGroup % 32 == 0, "a lane has 32 of a group");

  template <class End>
  static SINTER_DEVICE void run(const FourBitOperands<Config>& o, const End& end, int m) {
    __shared__ alignas(8) u64 full[kStages], empty[kStages];
    Block b;
    b.ring = (shared_address(dynamic_shared) + 1023u) & ~1023u;
    b.full = shared_address(full);
    b.empty = shared_address(empty);
    b.first_column = static_cast<int>(blockIdx.x) / kSplit * kBlockN;
    const int rank = static_cast<int>(blockIdx.x) % kSplit;
    b.begin = kSteps * rank / kSplit;
    b.end = kSteps * (rank + 1) / kSplit;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    launch_dependents();
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        mbarrier_init(b.full + 8 * s, 1 + kRowWarps);
        mbarrier_init(b.empty + 8 * s, kWarps);
      }
      mbarrier_init_fence();
    }
    __syncthreads();
    if constexpr (!Config::kConstantWeights) wait_for_predecessors();
    if (warp < kWarps) {
      multiply(o, b, warp, lane);
    } else {
      load(o, b, warp - kWarps, lane, m);
    }
    if constexpr (kSplit > 1) {
      __syncwarp();
      cluster_arrive();
      cluster_wait();
    } else {
      __syncthreads();
    }
    wait_for_predecessors();
    Sums::template store<kThreads>(b.ring, 0, b.first_column, rank, m, end, o.out);
    if constexpr (kSplit > 1) {  // others have read this block's sums
      __syncwarp();
      cluster_arrive();
      cluster_wait();
    }
  }

 private:
  struct Block {
    u32 ring, full, empty;  // addresses
    int first_column, begin, end;
  };

  static SINTER_DEVICE void advance(int& stage, u32& phase) {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  // ---- Loads

  static SINTER_DEVICE void load(const FourBitOperands<Config>& o, const Block& b, int warp,
                                 int lane, int m) {
    const bool leads = warp == 0 && lane == 0;
    if (leads) {
      for (int step = b.begin; step < b.end && step - b.begin < kStages; ++step) {
        load_weights(o, b, step, step - b.begin);
      }
    }
    wait_for_predecessors();
    Word4 next[kUnits][4];
    load_rows(o, b.begin, warp, lane, m, next);
    int stage = 0;
    u32 phase = 0;
    for (int step = b.begin; step < b.end; ++step) {
      if (step - b.begin >= kStages) {
        mbarrier_wait(b.empty + 8 * stage, phase ^ 1);
        if (leads) load_weights(o, b, step, stage);
      }
      const u32 to = b.ring + stage * kStageBytes + kWeightBytes + lane * 16;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const int unit = warp + u * kRowWarps;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (unit >= kSlices * kRowTiles) continue;
          store_shared(to + unit * kTileBytes + j * 512, pair_order(next[u][j]));
        }
      }
      __syncwarp();
      if (lane == 0) mbarrier_arrive(b.full + 8 * stage);
      if (step + 1 < b.end) load_rows(o, step + 1, warp, lane, m, next);
      advance(stage, phase);
    }
  }

  static SINTER_DEVICE void load_weights(const FourBitOperands<Config>& o, const Block& b, int step,
                                         int stage) {
    const u32 full = b.full + 8 * stage;
    mbarrier_arrive_expect(full, kWeightBytes);
    u32 to = b.ring + stage * kStageBytes;
#pragma unroll
    for (int matrix = 0; matrix < kMatrices; ++matrix) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box, to += kBoxBytes) {
        tma_load(to, o.weights[matrix], step * kSlices * 64 + box * kSpan, b.first_column, full);
      }
    }
  }

  // Units of 8 rows and a slice of K that a warp loads: a lane 32 of K of a row.
  static constexpr int kUnits = ceil_div(kSlices * kRowTiles, kRowWarps);

  // Where there is no row, or no K, it loads zeros.
  static SINTER_DEVICE void load_rows(const FourBitOperands<Config>& o, int step, int warp,
                                      int lane, int m, Word4 (&to)[kUnits][4]) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int unit = warp + u * kRowWarps;
      const int row = unit % kRowTiles * 8 + lane / 4;
      const int k = (step * kSlices + unit / kRowTiles) * 128 + lane % 4 * 32;
      const bool there = unit < kSlices * kRowTiles && row < m && k < Config::kK;
      const auto* const from =
          reinterpret_cast<const Word4*>(o.rows + row * Config::kRowStride + k);
#pragma unroll
      for (int j = 0; j < 4; ++j) to[u][j] = there ? load_now(from + j) : Word4{0, 0, 0, 0};
    }
  }

  // ---- Products

  // The scales and zeros of a lane's two columns, as stored.
  struct Group {
    typename Scale::Stored scale[2];
    typename Zero::Stored zero[2];
  };

  static SINTER_DEVICE Group load_group(const FourBitOperands<Config>& o, int matrix, int column,
                                        int k) {
    Group group = {};
    const auto* const scales = matrix == 0 ? o.scales[0] : o.scales[1];
    const auto* const zeros = matrix == 0 ? o.zeros[0] : o.zeros[1];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = column + 8 * i;
      if (at >= Config::kN || k >= Config::kK) continue;
      group.scale[i] = scales[at * Config::kScaleStride + k / Config::kGroup];
      if constexpr (Config::kZeros) {
        group.zero[i] = zeros[at * Config::kZeroStride + k / Config::kZeroGroup];
      }
    }
    return group;
  }

  static SINTER_DEVICE auto factors(const Group& group, int i) {
    const float zero = Config::kZeros ? Zero::unpack(group.zero[i]) : Config::kZero;
    return Weights::factors(Scale::unpack(group.scale[i]), zero);
  }

  static SINTER_DEVICE void multiply(const FourBitOperands<Config>& o, const Block& b, int warp,
                                     int lane) {
    const int matrix = warp / (kTiles * kSlices), tile = warp % kTiles,
              slice = warp / kTiles % kSlices;
    // The column of a lane's first row of A: lanes that read at once have other banks.
    const int row = lane / 8 + lane / 4 % 2 * 4;
    const int turned = (slice % 2 * 4 + lane % 4) ^ row;
    const u32 weights_at =
        (matrix * kBoxes + slice / 2) * kBoxBytes + (16 * tile + row) * kSpan + turned * 16;
    const u32 rows_at = kWeightBytes + slice * kRowTiles * kTileBytes + lane * 16;
    const int column = b.first_column + 16 * tile + row;
    const auto k_of = [&](int step) { return (step * kSlices + slice) * 128 + lane % 4 * 32; };
    float sums[kRowTiles][4] = {};
    Group group = load_group(o, matrix, column, k_of(b.begin));
    int stage = 0;
    u32 phase = 0;
    for (int step = b.begin; step < b.end; ++step) {
      const auto upper = factors(group, 0), lower = factors(group, 1);
      if (step + 1 < b.end) group = load_group(o, matrix, column, k_of(step + 1));
      mbarrier_wait(b.full + 8 * stage, phase);
      const u32 from = b.ring + stage * kStageBytes;
      multiply_codes<Weights, Element>(from + weights_at, from + rows_at, upper, lower,
                                       Config::kBlockM, sums);
      fence_proxy_async_shared();  // TMA overwrites what may still be loaded
      __syncwarp();
      if (lane == 0) mbarrier_arrive(b.empty + 8 * stage);
      advance(stage, phase);
    }
    named_barrier(1, kWarps * 32);  // all have read the ring to its end
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int of_row = 8 * i + lane % 4 * 2 + e % 2;
        const u32 at = Sums::address(b.ring, matrix, slice, of_row, 16 * tile + row + e / 2 * 8);
        store_shared(at, __float_as_uint(sums[i][e]));
      }
    }
  }
};

}  // namespace sinter
