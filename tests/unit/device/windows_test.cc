// Convolutions on the host's machine: the rows of a first product come from images by im2col loads,
// under the maps that recipes describe, in every form of a product.
#include "tests/unit/device/filters.h"
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

// A product over a filter's windows: block_m, block_k, stages, cluster, warpgroups m and n, layout
// io, n, block_n, split_k, shares of weights and rows, swapped.
template <class F, int kBlockM, int kBlockK, int kCluster, int kWarpgroupsM, int kWarpgroupsN,
          bool kTransposed, int kN, int kBlockN, int kSplit, int kWeightsShare = 1,
          int kRowsShare = 1, bool kSwapped = false>
struct Convolution : TestConfig<kBlockM, kBlockK, 3, kCluster, kWarpgroupsM, kWarpgroupsN,
                                kTransposed, 1, kN, F::kStaged, kBlockN, kSplit, kN, kBlockN, 1,
                                kWeightsShare, kRowsShare, kSwapped, Integer16, typename F::Rows> {
  using Shown = F;
};

template <class Config>
class Convolutions : public Products<Config> {};
using ConvolutionConfigs =
    Forms<Convolution<Same3, 64, 64, 1, 1, 1, false, 40, 40, 1>,
          Convolution<Bare3, 32, 128, 1, 1, 1, false, 24, 24, 1>,
          Convolution<Strided7, 24, 128, 4, 1, 1, false, 16, 16, 4>,
          Convolution<Dilated, 128, 64, 2, 2, 1, false, 72, 40, 2>,
          Convolution<Uneven, 16, 128, 1, 1, 2, true, 136, 128, 1>,
          Convolution<Column, 16, 64, 1, 1, 1, true, 64, 64, 1>,
          Convolution<Outside, 48, 64, 1, 1, 1, false, 8, 8, 1>,
          Convolution<Halved, 64, 128, 1, 1, 1, false, 24, 24, 1>,
          Convolution<OnePixel, 8, 64, 1, 1, 1, false, 16, 16, 1>,
          Convolution<Whole, 8, 64, 8, 1, 1, false, 16, 16, 8>,
          Convolution<Same3, 40, 128, 2, 1, 1, false, 136, 64, 2, 1, 1, true>,
          Convolution<Uneven, 24, 64, 1, 1, 2, true, 136, 128, 1, 1, 1, true>,
          Convolution<Eight, 64, 64, 1, 1, 1, false, 40, 40, 1>,
          Convolution<Eight, 24, 128, 2, 1, 1, true, 64, 64, 2>,
          Convolution<Stem, 16, 64, 4, 1, 1, false, 24, 24, 4>,
          Convolution<TwentyFour, 64, 128, 1, 1, 1, false, 72, 40, 1>,
          Convolution<TwentyFour, 16, 64, 1, 1, 1, true, 136, 64, 1>,
          Convolution<Forty, 40, 128, 2, 1, 1, false, 136, 64, 2, 1, 1, true>,
          Convolution<SeventyTwo, 32, 128, 1, 1, 1, false, 48, 48, 1>,
          Convolution<ManyChannels, 24, 64, 2, 1, 1, true, 72, 64, 2>,
          Convolution<ManyChannels, 16, 128, 4, 1, 1, false, 64, 64, 4, 1, 1, true>>;
TYPED_TEST_SUITE(Convolutions, ConvolutionConfigs);

TYPED_TEST(Convolutions, AreExactFromPixelsToTheStoredElement) {
  using F = typename TypeParam::Shown;
  this->template ExpectAllTiles<typename TypeParam::First>(OperandsOf<TypeParam, F>(5), F::kRows);
}

// Weights past K are zero, and zero times a NaN is a NaN.
TEST(Windows, LoadZerosBehindTheLastTap) {
  using Config = Convolution<Bare3, 32, 128, 1, 1, 1, false, 24, 24, 1>;
  using P = Config::First;
  const auto operands = OperandsOf<Config, Bare3>(5);
  machine.Reset(1);
  RunTile<Config, P, true>(operands, 0, 0, 0, 0, P::kKBlocks);
  static_assert(P::kKBlocks * P::kSubtiles == 10, "nine taps of a subtile each, and one behind");
  const u32 stage = kBase + (P::kKBlocks - 1) * (P::kRowsBytes + P::kWeightBytes);
  for (u32 at = 0; at < 32 * 128; at += 4) {
    ASSERT_EQ(machine.Load<u32>(stage + 32 * 128 + at), 0u) << at;
  }
}

// Filters after a tap's channels are zero in the ring too, in either layout.
template <class Config>
class PaddedTaps : public ::testing::Test {};
using PaddedConfigs = Forms<Convolution<Eight, 16, 128, 1, 1, 1, false, 40, 40, 1>,
                            Convolution<Forty, 16, 64, 1, 1, 1, false, 24, 24, 1>,
                            Convolution<SeventyTwo, 16, 128, 1, 1, 1, true, 64, 64, 1>,
                            Convolution<TwentyFour, 16, 64, 1, 1, 1, true, 64, 64, 1>,
                            Convolution<ManyChannels, 16, 64, 1, 1, 1, false, 24, 24, 1>>;
TYPED_TEST_SUITE(PaddedTaps, PaddedConfigs);

TYPED_TEST(PaddedTaps, AreZeroBehindTheirChannels) {
  using P = typename TypeParam::First;
  const auto operands = OperandsOf<TypeParam, typename TypeParam::Shown>(5);
  machine.Reset(1);
  RunTile<TypeParam, P, true>(operands, 0, 0, 0, 0, P::kKBlocks);
  constexpr bool kTransposed = TypeParam::kWeightsTransposed;
  for (int k = 0; k < P::kKBlocks * TypeParam::kBlockK; ++k) {
    const int block = k / TypeParam::kBlockK, in = k % TypeParam::kBlockK;
    const u32 stage = kBase + static_cast<u32>(block * (P::kRowsBytes + P::kWeightBytes)) +
                      static_cast<u32>(P::kRowsBytes);
    for (int n = 0; n < P::kN; ++n) {
      const u32 at = kTransposed ? hardware::TmaAddress(stage, in, n)
                                 : hardware::TmaAddress(
                                       stage + static_cast<u32>(in / 64 * P::kN * 128), n, in % 64);
      ASSERT_EQ(static_cast<int16_t>(machine.Load<u16>(at)),
                WeightAt<TypeParam>(operands.weights, k, n))
          << k << ", " << n;
    }
  }
}

// In groups: each tile has the channels of its own groups, and filters around which are zeros.
template <class Config>
class Groups : public ::testing::Test {};
using GroupConfigs =
    Forms<Convolution<GroupsOf8, 64, 64, 1, 1, 1, false, 128, 64, 1>,
          Convolution<GroupsOf8, 48, 128, 1, 1, 2, false, 128, 32, 1>,
          Convolution<GroupsOf8, 64, 128, 2, 1, 1, false, 256, 128, 2>,
          Convolution<GroupsOf8, 40, 64, 1, 1, 1, false, 128, 64, 1, 1, 1, true>,
          Convolution<GroupsOf24, 64, 128, 1, 1, 1, false, 72, 48, 1>,
          Convolution<GroupsOf24, 32, 64, 1, 1, 1, false, 72, 16, 1>,
          Convolution<GroupsOf24, 128, 64, 1, 2, 1, false, 120, 80, 1>,
          Convolution<GroupsOf48, 16, 128, 1, 1, 1, false, 192, 48, 1>,
          Convolution<GroupsOf48, 16, 64, 4, 1, 1, false, 192, 24, 4>,
          Convolution<GroupsOf112, 16, 64, 1, 1, 1, false, 224, 56, 1>,
          Convolution<GroupsOf112, 16, 128, 2, 1, 2, false, 224, 112, 2>,
          Convolution<GroupsOf112, 24, 64, 1, 1, 1, false, 256, 64, 1, 1, 1, true>>;
TYPED_TEST_SUITE(Groups, GroupConfigs);

TYPED_TEST(Groups, AreExactInEachTile) {
  using F = typename TypeParam::Shown;
  using P = typename TypeParam::First;
  auto operands = OperandsOf<TypeParam, F>(9);
  constexpr int kBundleColumns = P::kN / F::kGroups * F::kBundle;
  for (int row = 0; row < F::kRows; row += TypeParam::kBlockM) {
    for (int column = 0; column < P::kN; column += P::kBlockN) {
      const int first = column / kBundleColumns * F::kBundle * F::kGroupChannels;
      hardware::Matrix rows = RowsOf<F>(operands.images, first);
      operands.rows.data = rows.data;
      for (int rank = 0; rank < P::kSplitK; ++rank) {
        machine.Reset(P::kSplitK);
        machine.rank = rank;
        const int begin = P::first_block(rank), end = P::first_block(rank + 1);
        const auto sums = RunTile<TypeParam, P, true>(operands, 0, row, column, begin, end);
        ExpectProduct<TypeParam, P>(sums, operands, row, column, begin, end);
        ASSERT_FALSE(::testing::Test::HasFatalFailure()) << row << ", " << column;
      }
    }
  }
}

// Halves of a tile's pixels, or of its weights, by the two blocks of a pair.
template <class Config>
class SharedWindows : public ::testing::Test {};
using SharedWindowConfigs =
    Forms<Convolution<Same3, 64, 64, 2, 1, 1, false, 72, 40, 1, 1, 2>,
          Convolution<Strided7, 16, 128, 2, 1, 1, false, 40, 24, 1, 1, 2>,
          Convolution<Dilated, 48, 64, 2, 1, 2, true, 136, 128, 1, 2, 1>,
          Convolution<Dilated, 64, 128, 4, 1, 1, false, 48, 48, 2, 2, 1>,
          Convolution<Same3, 48, 64, 4, 1, 1, false, 136, 64, 2, 1, 2, true>,
          Convolution<Forty, 64, 64, 2, 1, 1, false, 72, 40, 1, 1, 2>,
          Convolution<Forty, 16, 128, 2, 1, 1, false, 48, 48, 1, 2, 1>,
          Convolution<Forty, 16, 64, 2, 1, 1, true, 136, 64, 1, 2, 1>,
          Convolution<SeventyTwo, 16, 128, 2, 1, 1, true, 136, 64, 1, 2, 1>>;
TYPED_TEST_SUITE(SharedWindows, SharedWindowConfigs);

TYPED_TEST(SharedWindows, GiveEachBlockOfAPairItsTile) {
  using F = typename TypeParam::Shown;
  ExpectPairsHaveTheirTiles<TypeParam>(OperandsOf<TypeParam, F>(21), F::kRows);
}

}  // namespace
}  // namespace sinter
