// Product: the compile-time geometry of one matrix product of a kernel. Config is the struct that
// codegen writes.
#pragma once
#include "tile/layout.cuh"

namespace sinter {

// Rows that lie in memory as they are multiplied.
struct PlainRows {
  static constexpr bool kIsWindow = false, kTransposed = false, kKOfLaunch = false;
};

// Rows that lie in memory as columns: element (k, row), rows without gaps. kKOfLaunch_: K is an
// argument of the launch, kK the most that it may be.
template <bool kKOfLaunch_>
struct TransposedRows {
  static constexpr bool kIsWindow = false, kTransposed = true, kKOfLaunch = kKOfLaunch_;
};

// Rows of a convolution: for each of kPixelsY x kPixelsX result pixels of an image the pixels under
// the kTapsY x kTapsX taps of its filter, kChannels of each side by side. In kGroups_ groups of
// channels, a tile has columns of the same kBundle_ groups, and the channels of those of each
// pixel.
template <int kChannels_, int kPixelsY_, int kPixelsX_, int kTapsY_, int kTapsX_, int kStrideY_,
          int kStrideX_, int kDilationY_, int kDilationX_, int kPadTop_, int kPadLeft_,
          int kGroups_ = 1, int kBundle_ = 1>
struct Window {
  static constexpr bool kIsWindow = true, kTransposed = false, kKOfLaunch = false;
  static constexpr int kChannels = kChannels_, kPixelsY = kPixelsY_, kPixelsX = kPixelsX_;
  static constexpr int kTapsY = kTapsY_, kTapsX = kTapsX_;
  static constexpr int kStrideY = kStrideY_, kStrideX = kStrideX_;
  static constexpr int kDilationY = kDilationY_, kDilationX = kDilationX_;
  static constexpr int kPadTop = kPadTop_, kPadLeft = kPadLeft_;
  static constexpr int kGroups = kGroups_, kBundle = kBundle_;
  static constexpr int kGroupChannels = kChannels / kGroups;
  static constexpr int kTapChannels = kBundle * kGroupChannels;  // that a tile has of a pixel
};

// Whether a tap's channels end inside a subtile along K. Each tap then has whole subtiles of K,
// with zeros behind its channels, and weights come from maps that count taps. So do those of
// groups.
template <class Rows, int kSpan>
constexpr bool pads_taps() {
  if constexpr (Rows::kIsWindow)
    return Rows::kGroups > 1 || Rows::kTapChannels % kSpan != 0;
  else
    return false;
}

// Columns of a box of K-major weights, of a warpgroup's `half` and of one group.
template <class Rows>
constexpr int weights_box(int columns, int half, int share) {
  int box = half / share;
  if constexpr (Rows::kIsWindow) {
    if (Rows::kGroups == 1) return box;
    for (int rest = columns / Rows::kGroups; rest != 0;) {
      const int next = box % rest;
      box = rest;
      rest = next;
    }
  }
  return box;
}

// Parts of a warpgroup's sums that the tensor cores compute one after another where sums are
// promoted: each needs registers besides the sums. `sets` products of mma_n columns side by side.
constexpr int promoted_parts(bool swapped, int sets, int mma_n) {
  if (sets * mma_n <= 128) return 1;
  return swapped ? sets : 2;
}

// Words of a matrix that a thread holds beside the sums of `groups` column groups: of both of its
// rows, of wide tiles of one.
constexpr int held_matrix_words(int groups) { return groups > 16 ? groups : 2 * groups; }

// Output columns kN, contraction kK, cut into tiles of Config::kBlockM rows and kBlockN columns;
// kWidth weight matrices (2: gate and up, whose columns stand side by side in a tile); kSplitK
// ranks of a cluster share a tile's K range. Where kWeightsShare or kRowsShare is 2, two blocks
// with neighbouring tiles each load one half of the weights, or rows, for both: Config::kSharers is
// then 2, and those blocks are half a cluster apart. Rows_: how the rows lie in memory.
// Config::kSwapped: the weights are the 64 rows of wgmma and the rows its columns; a warpgroup has
// kSets of such products side by side. kPermuted_: the tensor map of K-major weights permutes their
// rows (tile/layout.cuh).
template <class Config, int kWidth_, int kN_, int kK_, int kBlockN_, int kSplitK_,
          int kWeightsShare_ = 1, int kRowsShare_ = 1, class Rows_ = PlainRows,
          bool kPermuted_ = false>
struct Product {
  using Element = typename Config::Element;
  using Sum = typename Element::Sum;
  using Rows = Rows_;
  static constexpr int kWeightsShare = kWeightsShare_, kRowsShare = kRowsShare_;
  static constexpr int kWidth = kWidth_, kN = kN_, kK = kK_, kBlockN = kBlockN_, kSplitK = kSplitK_;
  static constexpr int kColumns = kWidth * kBlockN;               // weight columns of a tile
  static constexpr int kWarpN = kColumns / Config::kWarpgroupsN;  // of a warpgroup
  static constexpr int kHalf =
      kBlockN / Config::kWarpgroupsN;  // columns of one weight matrix per warpgroup
  static constexpr int kSets = Config::kSwapped ? kWarpN / kWarpgroupRows : 1;
  static constexpr int kMmaN = Config::kSwapped ? Config::kBlockM : kWarpN;  // N of the wgmma
  static constexpr int kAccumulators = kSets * kMmaN / 2;                    // of a thread
  static constexpr int kParts =
      Element::kPromoted ? promoted_parts(Config::kSwapped, kSets, kMmaN) : 1;
  static constexpr int kGroups = kHalf / 8;        // column groups of one matrix per warpgroup
  static constexpr int kTileGroups = kBlockN / 8;  // column groups of one matrix per tile
  static constexpr int kKBlocks = ceil_div(kK, Config::kBlockK);
  static constexpr int kColumnTiles = ceil_div(kN, kBlockN);
  static constexpr int kSubtiles = Config::kBlockK / Element::kSwizzleSpan;  // along K
  static constexpr bool kPermuted = kPermuted_;
  static constexpr bool kPadsTaps = pads_taps<Rows, Element::kSwizzleSpan>();
  static constexpr int kWeightsBox = weights_box<Rows>(kN, kHalf, kWeightsShare);
  static constexpr int kSteps = Config::kBlockK / Element::kWgmmaK;  // wgmmas along K
  static constexpr int kRowsBytes = Config::kBlockM * Config::kBlockK * Element::kBytes;
  static constexpr int kWeightBytes = kColumns * Config::kBlockK * Element::kBytes;
  // Rows that a rank sums and stores; an even number where accumulators are pairs of rows.
  static constexpr int kOwnerRows =
      round_up(ceil_div(Config::kBlockM, kSplitK), Config::kSwapped ? 2 : 1);
  static constexpr int kPartBytes = kSplitK > 1 ? kSplitK* kOwnerRows* kColumns * 4 : 0;

  static_assert(kBlockN % (8 * Config::kWarpgroupsN) == 0, "a warpgroup takes whole column groups");
  static_assert(Config::kBlockK % Element::kSwizzleSpan == 0, "a stage is whole subtiles");
  static_assert(!Config::kWeightsTransposed || kHalf % Element::kSwizzleSpan == 0,
                "N-major weights come in whole subtiles");
  static_assert(!Config::kWeightsTransposed || Element::kBytes == 2,
                "wgmma takes N-major operands of 16-bit types only");
  static_assert(!Rows::kTransposed || Config::kBlockM % Element::kSwizzleSpan == 0,
                "transposed rows come in whole subtiles");
  static_assert(!Rows::kTransposed || Element::kBytes == 2,
                "wgmma takes M-major operands of 16-bit types only");
  static_assert(kMmaN <= 256, "wgmma N is at most 256");
  static_assert(Config::kSwapped || kMmaN % (8 * kParts) == 0, "parts are whole column groups");
  static_assert(!Config::kSwapped || (kHalf % kWarpgroupRows == 0 && Config::kWarpgroupsM == 1),
                "swapped: each warpgroup has whole rows of wgmma, and all rows of the tile");
  static_assert(kSplitK <= kKBlocks, "every rank needs a K block");
  static_assert(kWeightsShare * kRowsShare <= 2, "two blocks share loads: weights, or rows");
  static_assert(Config::kWeightsTransposed || kHalf % (8 * kWeightsShare) == 0,
                "each load begins where a swizzle pattern does");
  static_assert(Config::kBlockM % (8 * kRowsShare) == 0,
                "each load begins where a swizzle pattern does");

  static_assert(!kPermuted || (kN % kPermutedSet == 0 &&
                               kHalf / kWeightsShare % kPermutedSet == 0 && !kPadsTaps),
                "each box, and the matrix, has whole sets of permuted rows");
  static_assert(!kPermuted || (!Config::kSwapped && !Config::kWeightsTransposed && kSplitK == 1),
                "a thread stores its own accumulators, in the order of the weights' rows");

  // First of the two columns that a thread has of column group `group`, from those of the
  // warpgroup. With several weight matrices: of each.
  static SINTER_SHARED_CONSTEXPR int pair_column(int thread, int group) {
    return kPermuted ? permuted_column(thread, group) : accumulator_column(thread, group);
  }

  // K blocks [first, last) of `rank` among kSplitK.
  static SINTER_SHARED_CONSTEXPR int first_block(int rank) { return kKBlocks * rank / kSplitK; }
  // The same of a launch's `k`. Every rank has a block; what lies behind k is zeros. Without any k
  // the blocks begin behind the one row that a tensor map must have.
  static SINTER_SHARED_CONSTEXPR int first_block(int rank, int k) {
    if (!Rows::kKOfLaunch) return first_block(rank);
    const int blocks = ceil_div(k, Config::kBlockK);
    return (blocks > kSplitK ? blocks : kSplitK) * rank / kSplitK + (k == 0 ? 1 : 0);
  }
};

// Which 64 rows (all, with swapped operands) and which columns of a tile this warpgroup computes.
struct WarpgroupPlace {
  int m, n;    // index along M and along N
  int thread;  // 0..127
};

// Where things lie in dynamic shared memory, from a 1024-byte aligned base.
template <class Config, int kStageBytes_, int kExchangeBytes_, int kPartBytes_>
struct SharedLayout {
  static constexpr int kStageBytes = kStageBytes_;
  static constexpr int kExchange = Config::kStages * kStageBytes;
  // wgmma reads 64 rows for each warpgroup even where a tile has fewer, so there is memory behind
  // the last tile.
  static constexpr int kOverread =
      !Config::kSwapped && Config::kBlockM < kWarpgroupRows * Config::kWarpgroupsM
          ? kWarpgroupRows * kRowBytes
          : 0;
  static constexpr int kParts = kExchange + kExchangeBytes_ + kOverread;
  static constexpr int kBarriers = kParts + kPartBytes_;
  static constexpr int kBytes =
      kBarriers + 1024 + 1024;  // barriers, and the slack that aligning the base takes
  static_assert(kStageBytes % 1024 == 0 && kExchangeBytes_ % 1024 == 0,
                "swizzle patterns start on 1024 bytes");
};

}  // namespace sinter
