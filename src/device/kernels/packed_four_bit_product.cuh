// Rows times packed weights of four bits: one matrix, or gate and up, by mma.sync.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/mma.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "tile/activation.cuh"
#include "tile/four_bit_sums.cuh"
#include "tile/four_bits.cuh"
#include "tile/layout.cuh"

namespace sinter {

extern __shared__ unsigned char dynamic_shared[];

// Element 0 of an array is the matrix's, or gate's; element 1 is up's. Boxes: of rows
// [k / 64, m, 64]; of weights [k / 16, n / 64, 512 bytes], the order in which lanes of mma.sync
// have 16 of K; of scales and zeros [k / kGroup, n], eight neighbours of which a lane reads.
template <class Config>
struct PackedOperands {
  const TensorMap* rows;
  const TensorMap *weights[2], *scales[2], *zeros[2];
  typename Config::Result::Stored* out;  // [m, n]
};

// A block has kBlockM rows, kTiles * 64 columns of each matrix and a part of K: all of it, or that
// of its rank in a cluster of kSplit. A warp has 64 columns and, of each step of kSlices * 128 of
// K, its slice. So a lane loads 16 bytes of codes for four products of 16 columns, and each
// product's rows serve all four. The sums of slices and ranks meet in shared memory, in one order.
//
// One lane loads all of a stage by TMA. Up to 16 rows it is a warp's of its own. With more rows,
// another warp would leave those that multiply too few registers.
//
// Scales come by TMA too. Loads of global memory would have to end before each fence, which a warp
// needs to give back a stage: 9 us of a kernel of 21.
template <class Config>
struct PackedFourBitProduct {
  using Element = typename Config::Element;
  using Weights = FourBits<Element, Config::kForm>;
  using Factors = typename Weights::Factors;
  using Sums = FourBitSums<Config, 64>;
  static constexpr int kMatrices = Config::kPair ? 2 : 1;
  static constexpr int kTiles = Config::kTiles, kSlices = Config::kSlices;
  static constexpr int kStages = Config::kStages, kSplit = Config::kSplit;
  static constexpr int kRowTiles = Config::kBlockM / 8, kBlockN = 64 * kTiles;
  static constexpr bool kLoader = Config::kBlockM <= 16;
  static constexpr int kWarps = kMatrices * kTiles * kSlices;
  static constexpr int kThreads = 32 * (kWarps + (kLoader ? 1 : 0));
  static constexpr int kColumnBlocks = ceil_div(Config::kN, kBlockN);
  static constexpr int kSliceK = 128, kStepK = kSliceK * kSlices;
  static constexpr int kSteps = ceil_div(Config::kK, kStepK);
  // A stage: weights of each matrix, rows in boxes of 64 of K, scales and zeros of each matrix.
  static constexpr int kPieceBytes = 512;  // of 64 columns and 16 of K
  static constexpr int kMatrixBytes = kTiles * kStepK / 16 * kPieceBytes;
  static constexpr int kRowsAt = kMatrices * kMatrixBytes;
  static constexpr int kRowBoxBytes = Config::kBlockM * 128;
  static constexpr int kScalesAt = kRowsAt + kStepK / 64 * kRowBoxBytes;
  static constexpr int kScaleRowBytes = kBlockN * 2;
  static constexpr int kScaleBytes = kStepK / Config::kGroup * kScaleRowBytes;
  static constexpr int kZerosAt = kScalesAt + kMatrices * kScaleBytes;
  static constexpr int kLoadBytes = kZerosAt + (Config::kZeros ? kMatrices * kScaleBytes : 0);
  static constexpr int kStageBytes = ceil_div(kLoadBytes, 1024) * 1024;
  static constexpr int kSharedBytes = 1024 + kStages * kStageBytes;
  static_assert(Sums::kBytes <= kStages * kStageBytes, "sums take the place of stages");
  static_assert(Config::kGroup % 32 == 0 && kSliceK % Config::kGroup == 0,
                "two pieces have one scale, and a slice whole groups");
  static_assert(sizeof(typename Config::Scale::Stored) == 2, "a lane reads eight scales at once");

  template <class End>
  static SINTER_DEVICE void run(const PackedOperands<Config>& o, const End& end, int m) {
    __shared__ alignas(8) u64 full[kStages], empty[kStages];
    Block b;
    // Neighbours have the same columns, whose weights L2 keeps.
    const int cluster = static_cast<int>(blockIdx.x) / kSplit;
    const int row_blocks = static_cast<int>(gridDim.x) / (kSplit * kColumnBlocks);
    b.first_row = cluster % row_blocks * Config::kBlockM;
    b.first_column = cluster / row_blocks * kBlockN;
    launch_dependents();
    if (b.first_row >= m) {
      wait_for_predecessors();  // the next kernel waits for this one only
      return;
    }
    b.ring = (shared_address(dynamic_shared) + 1023u) & ~1023u;
    b.full = shared_address(full);
    b.empty = shared_address(empty);
    const int rank = static_cast<int>(blockIdx.x) % kSplit;
    b.begin = kSteps * rank / kSplit;
    b.end = kSteps * (rank + 1) / kSplit;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        mbarrier_init(b.full + 8 * s, 1);
        mbarrier_init(b.empty + 8 * s, kWarps);
      }
      mbarrier_init_fence();
    }
    __syncthreads();
    if constexpr (!Config::kConstantWeights) wait_for_predecessors();
    const bool leads = lane == 0 && warp == (kLoader ? kWarps : 0);
    if (leads) fill(o, b);
    if (kLoader && warp == kWarps) {
      for (int step = b.begin; leads && step < b.end; ++step) refill(o, b, step);
    } else {
      multiply(o, b, warp, lane, leads);
    }
    if constexpr (kSplit > 1) {
      __syncwarp();
      cluster_arrive();
      cluster_wait();
    } else {
      __syncthreads();
    }
    wait_for_predecessors();
    Sums::template store<kThreads>(b.ring, b.first_row, b.first_column, rank, m, end, o.out);
    if constexpr (kSplit > 1) {  // others have read this block's sums
      __syncwarp();
      cluster_arrive();
      cluster_wait();
    }
  }

 private:
  struct Block {
    u32 ring, full, empty;  // addresses
    int first_row, first_column, begin, end;
  };

  // ---- Loads

  static SINTER_DEVICE void fill(const PackedOperands<Config>& o, const Block& b) {
    const int first = b.end - b.begin < kStages ? b.end - b.begin : kStages;
    for (int i = 0; i < first; ++i) load_weights(o, b, b.begin + i, i);
    wait_for_predecessors();
    for (int i = 0; i < first; ++i) load_rows(o, b, b.begin + i, i);
  }

  // Fills the stage of step `last` for the step that takes it next, once all warps have left it.
  static SINTER_DEVICE void refill(const PackedOperands<Config>& o, const Block& b, int last) {
    const int at = last - b.begin, stage = at % kStages, next = last + kStages;
    if (at < 0 || next >= b.end) return;
    mbarrier_wait(b.empty + 8 * stage, at / kStages % 2);
    load_weights(o, b, next, stage);
    load_rows(o, b, next, stage);
  }

  static SINTER_DEVICE void load_weights(const PackedOperands<Config>& o, const Block& b, int step,
                                         int stage) {
    const u32 full = b.full + 8 * stage, to = b.ring + stage * kStageBytes;
    mbarrier_arrive_expect(full, kLoadBytes);
    const int group = step * (kStepK / Config::kGroup);
#pragma unroll
    for (int i = 0; i < kMatrices; ++i) {
      tma_load(to + i * kMatrixBytes, o.weights[i], 0, b.first_column / 64, step * (kStepK / 16),
               full);
      tma_load(to + kScalesAt + i * kScaleBytes, o.scales[i], b.first_column, group, full);
      if constexpr (Config::kZeros) {
        tma_load(to + kZerosAt + i * kScaleBytes, o.zeros[i], b.first_column, group, full);
      }
    }
  }

  static SINTER_DEVICE void load_rows(const PackedOperands<Config>& o, const Block& b, int step,
                                      int stage) {
    tma_load(b.ring + stage * kStageBytes + kRowsAt, o.rows, 0, b.first_row, step * (kStepK / 64),
             b.full + 8 * stage);
  }

  // ---- Products

  // Element i of eight, in both halves.
  static SINTER_DEVICE u32 both(const Word4& eight, int i) {
    const u32 word = i < 2 ? eight.x : i < 4 ? eight.y : i < 6 ? eight.z : eight.w;
    return __byte_perm(word, 0, i % 2 == 0 ? 0x1010 : 0x3232);
  }

  // Loads the factors of a lane's eight columns: lane / 4 and each eighth from there.
  static SINTER_DEVICE void load_factors(u32 scales, Factors (&f)[8]) {
    const Word4 scale = load_shared_words(scales);
    Word4 zero = {};
    if constexpr (Config::kZeros) zero = load_shared_words(scales + kMatrices * kScaleBytes);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u32 of_zero = Config::kZeros ? both(zero, i) : Weights::both(Config::kZero);
      f[i] = Weights::factors_of_words(both(scale, i), of_zero);
    }
  }

  static SINTER_DEVICE void multiply(const PackedOperands<Config>& o, const Block& b, int warp,
                                     int lane, bool leads) {
    const int matrix = warp / (kTiles * kSlices), tile = warp % kTiles,
              slice = warp / kTiles % kSlices;
    constexpr int kPieces = kSliceK / 16, kPieceStep = kTiles * kPieceBytes;
    const u32 weights_at =
        matrix * kMatrixBytes + slice * kPieces * kPieceStep + tile * kPieceBytes + lane * 16;
    const int of_row = lane % 8;
    const u32 rows_at = kRowsAt + slice * (kSliceK / 64) * kRowBoxBytes + of_row * 128;
    const u32 scales_at = kScalesAt + matrix * kScaleBytes +
                          slice * (kSliceK / Config::kGroup) * kScaleRowBytes + tile * 128 +
                          lane / 4 * 16;
    float sums[4][kRowTiles][4] = {};
    for (int step = b.begin; step < b.end; ++step) {
      const int stage = (step - b.begin) % kStages;
      mbarrier_wait(b.full + 8 * stage, (step - b.begin) / kStages % 2);
      const u32 from = b.ring + stage * kStageBytes;
      Factors f[8];
#pragma unroll
      for (int piece = 0; piece < kPieces; piece += 2) {
        if (piece * 16 % Config::kGroup == 0) {
          load_factors(from + scales_at + piece * 16 / Config::kGroup * kScaleRowBytes, f);
        }
        const u32 codes = from + weights_at + piece * kPieceStep;
        const Word4 of_piece[2] = {load_shared_words(codes), load_shared_words(codes + kPieceStep)};
        u32 rows[kRowTiles][4];
        const u32 box = from + rows_at + piece / 4 * kRowBoxBytes;
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          const int chunk = (piece % 4 * 2 + lane / 8) ^ of_row;  // of 16 bytes, swizzled
          load_matrices<false>(rows[i], box + i * 1024 + chunk * 16);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const u32 x[4] = {of_piece[h].x, of_piece[h].y, of_piece[h].z, of_piece[h].w};
#pragma unroll
          for (int j = 0; j < 4; ++j) multiply_word(x[j], f[2 * j], f[2 * j + 1], rows, h, sums[j]);
        }
      }
      fence_proxy_async_shared();  // TMA overwrites what may still be loaded
      __syncwarp();
      if (lane == 0) mbarrier_arrive(b.empty + 8 * stage);
      if (!kLoader && leads) refill(o, b, step - 1);
    }
    named_barrier(1, kWarps * 32);  // all have read the ring to its end
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = 8 * i + lane % 4 * 2 + e % 2;
          const int column = 64 * tile + 16 * j + lane / 4 + e / 2 * 8;
          store_shared(Sums::address(b.ring, matrix, slice, row, column),
                       __float_as_uint(sums[j][i][e]));
        }
      }
    }
  }

  // Adds the products of 16 columns and the 16 of K of half `h` of the rows' matrices.
  static SINTER_DEVICE void multiply_word(u32 x, const Factors& upper, const Factors& lower,
                                          const u32 (&rows)[kRowTiles][4], int h,
                                          float (&sums)[kRowTiles][4]) {
    u32 a[4];
    Weights::unpack_two(x, upper, a[0], a[2]);
    // x >> 8, which no shift to the left joins.
    Weights::unpack_two(__byte_perm(x, 0, 0x4321), lower, a[1], a[3]);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      Packed<Element>::mma(sums[i], a[0], a[1], a[2], a[3], rows[i][2 * h], rows[i][2 * h + 1]);
    }
  }
};

}  // namespace sinter
