// The norms of a product's rows: their sums, from the ring to the factors that threads read, and
// the barriers between them.
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

using hardware::machine;

template <class Config>
class NormsOfRows : public ::testing::Test {};
using NormConfigs = Forms<TestConfig<8, 128, 2, 1, 1, 1, false, 1, 24, 2048, 8, 1, 9, 16, 1>,
                          TestConfig<16, 64, 3, 1, 1, 2, false, 1, 80, 200, 32, 1, 72, 80, 1>,
                          TestConfig<48, 128, 4, 1, 1, 1, true, 2, 64, 392, 64, 1, 64, 64, 1>,
                          Swapped<8, 64, 3, 1, 1, false, 1, 72, 136, 64, 1>,
                          Swapped<40, 128, 2, 1, 2, false, 1, 136, 200, 128, 1>,
                          Swapped<24, 64, 4, 1, 3, true, 1, 200, 72, 192, 1>>;
TYPED_TEST_SUITE(NormsOfRows, NormConfigs);

TYPED_TEST(NormsOfRows, AreThoseOfAllElementsInTheRing) {
  using P = typename TypeParam::First;
  using Squares = RowSquares<TypeParam, P>;
  constexpr u32 kSquares = kBarriers - 1024;
  const int rows = TypeParam::kBlockM + 3;
  const Operands<TypeParam, P> operands(TestMatrix(rows, P::kK, 5), 6);
  const Ring<P::kKBlocks, P::kRowsBytes + P::kWeightBytes> ring{kBase, kBarriers};
  // The last tile overlaps the first: it begins at a multiple of 8 rows.
  for (int row : {0, (rows - TypeParam::kBlockM + 7) / 8 * 8}) {
    machine.Reset(1);
    Cursor<P::kKBlocks> of_weights, of_rows;
    produce_weights<TypeParam, P, true>(ring, of_weights, operands.maps(), 0, 0, P::kKBlocks);
    produce_rows<TypeParam, P>(ring, of_rows, operands.maps(), row, 0, P::kKBlocks);
    std::vector<Squares> squares(kConsumers<TypeParam>);
    for (int t = 0; t < kConsumers<TypeParam>; ++t) {
      threadIdx.x = 128 + static_cast<unsigned>(t);
      float sums[P::kAccumulators];
      Cursor<P::kKBlocks> cursor;
      accumulate<TypeParam, P, true>(sums, ring, cursor, 0, P::kKBlocks, PlaceOf<TypeParam>(t),
                                     &squares[static_cast<size_t>(t)]);
    }
    for (int warp = 0; warp < kConsumers<TypeParam> / 32; ++warp) {
      machine.RunWarp([&](int lane) {
        threadIdx.x = 128 + static_cast<unsigned>(warp * 32 + lane);
        squares[static_cast<size_t>(warp * 32 + lane)].publish(kSquares);
      });
    }
    const RowNorms<TypeParam> norms{3, kSquares, row};
    for (int r = row; r < row + TypeParam::kBlockM; ++r) {
      float sum = 0;
      for (int k = 0; k < P::kK && r < rows; ++k) {
        const float x = static_cast<int16_t>(operands.rows.At(r, k));
        sum += x * x;
      }
      EXPECT_FLOAT_EQ(norms.at(r), 3 / std::sqrt(sum / P::kK + 0.25f)) << r;
    }
  }
}

// Two tiles one after the other. Each thread reads the factors of all rows, of which it needs some.
template <class Config>
hardware::Races RacesOfTwoTiles(int left_out) {
  constexpr u32 kSquares = kBarriers - 1024;
  machine.Reset(1);
  hardware::Races races(left_out, 2);
  machine.races = &races;
  const RowNorms<Config> norms{1, kSquares};
  for (int tile = 0; tile < 2; ++tile) {
    for (int warp = 0; warp < kConsumers<Config> / 32; ++warp) {
      machine.RunWarp([&](int lane) {
        threadIdx.x = 128 + static_cast<unsigned>(warp * 32 + lane);
        RowSquares<Config, typename Config::First>().publish(kSquares);
      });
    }
    for (int t = 0; t < kConsumers<Config>; ++t) {
      threadIdx.x = 128 + static_cast<unsigned>(t);
      for (int row = 0; row < Config::kBlockM; ++row) norms.at(row);
    }
  }
  machine.races = nullptr;
  return races;
}

TYPED_TEST(NormsOfRows, AreReadBehindABarrierAndWrittenBehindAnother) {
  EXPECT_EQ(RacesOfTwoTiles<TypeParam>(hardware::Races::kNone).found(), 0);
}
TYPED_TEST(NormsOfRows, RaceWithoutEitherOfTheirBarriers) {
  EXPECT_GT(RacesOfTwoTiles<TypeParam>(0).found(), 0);
  EXPECT_GT(RacesOfTwoTiles<TypeParam>(1).found(), 0);
}

}  // namespace
}  // namespace sinter
