// The device library's own text, from TMA to the stored result, on a host model of the hardware:
// what producers place, consumers multiply and exchanges carry must give the exact product.
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

using hardware::machine;
using hardware::Matrix;

TEST(Scaling, CountsRowsFromAnyAndReadsNoneBehindTheLast) {
  const std::vector<float> factors = {3, 5, 7};
  const auto all = RowFactors<Float32>::of(factors.data(), 2, 3);
  const auto tail = RowFactors<Float32>::of(factors.data(), 2, 3, 2);
  EXPECT_EQ(all.at(1), 10);
  EXPECT_EQ(all.at(3), 0);
  EXPECT_EQ(tail.at(0), 14);
  EXPECT_EQ(tail.at(1), 0);
  EXPECT_EQ(ConstantScale::of(nullptr, 0.5f, 3).at(7), 0.5f);
}

// bm, bk, stages, cluster, wgm, wgn, io, width, n, k, bn1, split1, l, bn2, split2
using ProductConfigs = Forms<TestConfig<128, 128, 2, 4, 2, 1, false, 2, 96, 256, 24, 1, 40, 40, 1>,
                             TestConfig<128, 64, 4, 2, 2, 1, false, 1, 104, 136, 56, 2, 35, 40, 2>,
                             TestConfig<64, 64, 4, 1, 1, 2, false, 2, 48, 72, 16, 1, 80, 48, 1>,
                             TestConfig<64, 128, 2, 8, 1, 1, false, 2, 32, 1024, 32, 8, 8, 8, 1>,
                             TestConfig<16, 64, 3, 4, 1, 2, false, 1, 80, 200, 32, 4, 72, 80, 2>,
                             TestConfig<8, 128, 2, 16, 1, 1, false, 1, 24, 2048, 8, 16, 9, 16, 1>,
                             TestConfig<96, 64, 3, 1, 2, 1, false, 1, 256, 64, 256, 1, 64, 32, 4>,
                             TestConfig<128, 128, 2, 2, 2, 1, true, 1, 128, 128, 64, 1, 72, 128, 1>,
                             TestConfig<64, 64, 3, 4, 1, 2, true, 2, 136, 264, 128, 4, 128, 128, 2>,
                             TestConfig<24, 128, 2, 4, 1, 1, true, 2, 64, 392, 64, 4, 192, 192, 1>>;
TYPED_TEST_SUITE(Products, ProductConfigs);

using SwappedConfigs = Forms<Swapped<8, 64, 3, 1, 1, false, 1, 72, 136, 64, 1>,
                             Swapped<40, 128, 2, 1, 2, false, 1, 136, 200, 128, 1>,
                             Swapped<24, 64, 4, 1, 1, false, 2, 104, 72, 64, 1>,
                             Swapped<16, 64, 4, 1, 1, false, 1, 131, 72, 128, 1>,
                             Swapped<72, 64, 3, 1, 3, true, 1, 200, 136, 192, 1>,
                             Swapped<16, 64, 3, 1, 2, true, 2, 264, 72, 128, 1>,
                             Swapped<152, 64, 3, 4, 1, false, 1, 72, 264, 64, 4>,
                             Swapped<40, 128, 2, 2, 2, false, 2, 136, 264, 128, 2>,
                             Swapped<8, 64, 3, 8, 1, true, 2, 64, 520, 64, 8>,
                             Swapped<24, 64, 3, 2, 1, false, 1, 131, 136, 128, 2>>;
template <class Config>
class SwappedProducts : public Products<Config> {};
TYPED_TEST_SUITE(SwappedProducts, SwappedConfigs);
TYPED_TEST(SwappedProducts, AreExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}

TYPED_TEST(Products, FirstIsExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}
TYPED_TEST(Products, SecondIsExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::Second>(TypeParam::kBlockM - 3);
}

// Rows that lie as columns, of a K that is known and of one that the launch says.
using Columns = TransposedRows<false>;
using ColumnsOfLaunch = TransposedRows<true>;
using TransposedConfigs =
    Forms<TestConfig<64, 64, 4, 1, 1, 1, true, 1, 72, 136, 64, 1, 64, 64, 1, 1, 1, false, Integer16,
                     Columns>,
          TestConfig<128, 128, 2, 2, 2, 1, true, 2, 136, 300, 64, 2, 64, 64, 1, 1, 1, false,
                     Integer16, Columns>,
          TestConfig<64, 64, 4, 4, 1, 2, false, 1, 72, 264, 48, 4, 64, 64, 1, 1, 1, false,
                     Integer16, Columns>,
          Swapped<64, 64, 3, 1, 1, true, 1, 136, 130, 128, 1, 1, 1, Columns>,
          Swapped<128, 128, 2, 2, 2, false, 1, 131, 264, 128, 2, 1, 1, Columns>>;
template <class Config>
class TransposedProducts : public Products<Config> {};
TYPED_TEST_SUITE(TransposedProducts, TransposedConfigs);
TYPED_TEST(TransposedProducts, AreExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}

// Weights whose rows lie permuted.
template <int kBlockM, int kBlockK, int kWarpgroupsM, int kWarpgroupsN, int kWidth, int kN, int kK,
          int kBlockN, int kWeightsShare = 1, int kRowsShare = 1>
using Permuted = TestConfig<kBlockM, kBlockK, 3, kWeightsShare * kRowsShare, kWarpgroupsM,
                            kWarpgroupsN, false, kWidth, kN, kK, kBlockN, 1, 64, 64, 1,
                            kWeightsShare, kRowsShare, false, Integer16, PlainRows, true>;
using PermutedConfigs =
    Forms<Permuted<128, 64, 2, 1, 1, 96, 136, 64>, Permuted<64, 128, 1, 1, 1, 160, 72, 128>,
          Permuted<24, 64, 1, 2, 2, 96, 72, 64>, Permuted<192, 64, 3, 1, 1, 32, 64, 32>,
          Permuted<128, 64, 2, 1, 2, 64, 200, 32>>;
template <class Config>
class PermutedProducts : public Products<Config> {};
TYPED_TEST_SUITE(PermutedProducts, PermutedConfigs);
TYPED_TEST(PermutedProducts, AreExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}

// K in full, fewer steps than ranks, part of a step, and none: elements past K add nothing.
using LaunchConfigs =
    Forms<TestConfig<192, 64, 3, 1, 3, 1, true, 1, 128, 100, 128, 1, 64, 64, 1, 1, 1, false,
                     Integer16, ColumnsOfLaunch>,
          TestConfig<128, 64, 4, 4, 2, 1, true, 1, 136, 450, 128, 4, 64, 64, 1, 1, 1, false,
                     Integer16, ColumnsOfLaunch>,
          Swapped<192, 64, 3, 2, 1, true, 2, 72, 321, 64, 2, 1, 1, ColumnsOfLaunch>>;
template <class Config>
class SumsOverTheLaunch : public Products<Config> {};
TYPED_TEST_SUITE(SumsOverTheLaunch, LaunchConfigs);
TYPED_TEST(SumsOverTheLaunch, EndWhereTheLaunchsKEnds) {
  using P = typename TypeParam::First;
  for (const int k : {P::kK, 65, 1, 0}) {
    const int rows = TypeParam::kBlockM - 3;
    Operands<TypeParam, P> operands(TestMatrix(rows, P::kK, 5), 6);
    operands.EndAt(k);
    this->template ExpectAllTiles<P>(operands, rows);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

template <class Config>
class SharedLoads : public ::testing::Test {};
using SharedConfigs =
    Forms<TestConfig<64, 64, 4, 2, 1, 1, false, 1, 96, 136, 48, 1, 40, 40, 1, 2, 1>,
          TestConfig<128, 128, 2, 2, 2, 1, false, 2, 80, 256, 32, 1, 40, 40, 1, 2, 1>,
          TestConfig<64, 64, 4, 2, 1, 2, false, 2, 96, 200, 32, 1, 40, 32, 1, 2, 1>,
          TestConfig<72, 64, 3, 2, 2, 1, true, 1, 200, 264, 128, 1, 72, 64, 1, 2, 1>,
          TestConfig<64, 128, 2, 2, 1, 1, false, 1, 72, 264, 24, 1, 40, 40, 1, 1, 2>,
          TestConfig<16, 64, 3, 2, 1, 2, true, 2, 136, 72, 128, 1, 128, 128, 1, 1, 2>,
          TestConfig<64, 64, 4, 4, 1, 1, false, 1, 96, 264, 48, 2, 40, 40, 1, 2, 1>,
          TestConfig<64, 64, 4, 8, 1, 1, true, 1, 136, 264, 64, 4, 64, 64, 1, 1, 2>,
          Permuted<64, 64, 1, 1, 1, 96, 136, 64, 2, 1>,
          Permuted<128, 64, 2, 1, 2, 160, 72, 64, 1, 2>,
          Swapped<24, 64, 4, 2, 1, false, 2, 136, 136, 64, 1, 2, 1>,
          Swapped<48, 64, 4, 4, 2, false, 1, 136, 264, 128, 2, 1, 2>,
          TestConfig<128, 64, 4, 2, 2, 1, true, 1, 200, 264, 128, 1, 72, 64, 1, 2, 1, false,
                     Integer16, Columns>,
          TestConfig<64, 128, 2, 4, 1, 1, true, 1, 136, 264, 64, 2, 72, 64, 1, 1, 2, false,
                     Integer16, Columns>,
          Swapped<64, 64, 4, 4, 2, true, 1, 136, 264, 128, 2, 1, 2, Columns>>;
TYPED_TEST_SUITE(SharedLoads, SharedConfigs);

TYPED_TEST(SharedLoads, GiveEachBlockOfAPairItsTile) {
  using P = typename TypeParam::First;
  constexpr int kRows = 2 * TypeParam::kBlockM - 11;
  ExpectPairsHaveTheirTiles<TypeParam>(Operands<TypeParam, P>(TestMatrix(kRows, P::kK, 21), 22),
                                       kRows);
}

template <class Config>
class ClusterExchange : public ::testing::Test {
 protected:
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr u32 kExchange = 128 * 1024;

  // Every rank's columns of a C whose elements are small, as accumulators of the first product.
  Accumulators<First> AccumulatorsOf(const Matrix& c, int column) {
    Accumulators<First> d(kConsumers<Config>);
    for (int t = 0; t < kConsumers<Config>; ++t) {
      const WarpgroupPlace place = PlaceOf<Config>(t);
      for (int i = 0; i < First::kAccumulators; ++i) {
        const auto at = hardware::AccumulatorPlace(place.thread, i);
        const bool is_up = at.column >= First::kHalf;
        const int n = column + place.n * First::kHalf + at.column % First::kHalf;
        const int16_t value = static_cast<int16_t>(c.At(place.m * 64 + at.row, n));
        d[static_cast<size_t>(t)][static_cast<size_t>(i)] = is_up ? 1.0f : value;
      }
    }
    return d;
  }
};

using ClusterConfigs =
    Forms<TestConfig<16, 64, 3, 8, 1, 1, false, 1, 192, 64, 24, 1, 64, 8, 1>,
          TestConfig<32, 64, 4, 4, 1, 2, false, 2, 120, 64, 32, 1, 72, 32, 1>,
          TestConfig<128, 128, 2, 2, 2, 1, false, 1, 200, 128, 104, 1, 40, 24, 1>,
          TestConfig<64, 64, 2, 2, 1, 2, true, 2, 256, 64, 128, 1, 200, 128, 1>,
          TestConfig<8, 128, 2, 1, 1, 1, true, 1, 64, 64, 64, 1, 128, 128, 1>>;
TYPED_TEST_SUITE(ClusterExchange, ClusterConfigs);

TYPED_TEST(ClusterExchange, PutsEveryElementOfCWhereTheSecondProductReadsIt) {
  using First = typename TypeParam::First;
  using Second = typename TypeParam::Second;
  const Matrix c = TestMatrix(TypeParam::kBlockM, First::kN, 11);
  const Operands<TypeParam, Second> second(c, 12);
  machine.Reset(TypeParam::kCluster);
  const Epilogue<First, Integer16, Identity, false> epilogue{nullptr, nullptr, {}};
  using Writer = DsmShuffle<TypeParam, First::kN>;
  constexpr int kTail = Second::kKBlocks * TypeParam::kBlockK;
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    machine.Expect(kOwnBarriers, Writer::kBytes);
    blockDim.x = 96;
    for (threadIdx.x = 0; kTail > First::kN && threadIdx.x < blockDim.x; ++threadIdx.x)
      clear_exchange_tail<TypeParam>(this->kExchange);
  }
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    const int column = rank * First::kBlockN;
    const Accumulators<First> d = this->AccumulatorsOf(c, column);
    for (int warp = 0; warp < kConsumers<TypeParam> / 32; ++warp) {
      machine.RunWarp([&](int lane) {
        const int t = warp * 32 + lane;
        threadIdx.x = 128 + static_cast<unsigned>(t);
        const WarpgroupPlace place = PlaceOf<TypeParam>(t);
        WriteOwn<TypeParam, First>(AsArray(d[static_cast<size_t>(t)]), epilogue,
                                   Writer{this->kExchange, kOwnBarriers}, 0, column, place);
      });
    }
  }
  ExpectBarriersComplete();
  for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
    machine.rank = rank;
    const int column = rank * Second::kBlockN;
    const auto d =
        RunTile<TypeParam, Second, false>(second, this->kExchange, 0, column, 0, Second::kKBlocks);
    ExpectProduct<TypeParam, Second>(d, second, 0, column, 0, Second::kKBlocks);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// A store goes to each peer's own copy of the same address, and nowhere else.
TEST(ClusterExchangeWriter, ReachesEveryPeer) {
  using Config = TestConfig<16, 64, 3, 4, 1, 1, false, 1, 64, 64, 16, 1, 64, 16, 1>;
  machine.Reset(4);
  machine.rank = 2;
  const DsmShuffle<Config, 64> writer{2048, kOwnBarriers};
  writer.group(3, 8, Word4{1, 2, 3, 4});
  writer.group(3, 64, Word4{9, 9, 9, 9});  // past the last column: not written
  for (int rank = 0; rank < 4; ++rank) {
    machine.rank = rank;
    EXPECT_EQ(machine.Load<u32>(2048 + static_cast<u32>(swizzled_offset<Integer16>(16, 3, 8))), 1u);
    EXPECT_EQ(machine.Barrier(kOwnBarriers).arrived, 16);
  }
}

TEST(QuadTranspose, GivesEachLaneOneGroup) {
  for (int run = 0; run < 2; ++run) {
    machine.RunWarp([&](int lane) {
      threadIdx.x = static_cast<unsigned>(lane);
      u32 w[4];
      for (u32 g = 0; g < 4; ++g) w[g] = static_cast<u32>(lane) * 16 + g;
      const Word4 v = quad_transpose(w);
      if (!machine.count_bytes) return;
      const u32 quad = static_cast<u32>(lane) / 4 * 4, group = static_cast<u32>(lane) % 4;
      EXPECT_EQ(v.x, (quad + 0) * 16 + group);
      EXPECT_EQ(v.y, (quad + 1) * 16 + group);
      EXPECT_EQ(v.z, (quad + 2) * 16 + group);
      EXPECT_EQ(v.w, (quad + 3) * 16 + group);
    });
  }
}

template <class Element, int kColumns, class Stored>
void ExpectNothingReadOutside(int stride, int rows) {
  std::vector<Stored> data(static_cast<size_t>(stride * (rows - 1) + kColumns));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<Stored>(i + 1);
  const auto matrix = MatrixLeaf<Element, kColumns, false>::of(data.data(), stride, rows);
  for (int row = 0; row < rows + 3; ++row) {
    for (int column = 0; column < 24; column += 8) {
      typename Element::Pair pairs[4];
      matrix.eight(row, column, pairs);
      for (int i = 0; i < 8; ++i) {
        const bool inside = row < rows && column + i < kColumns;
        const float wanted = inside ? static_cast<float>(row * stride + column + i + 1) : 0;
        EXPECT_EQ(i % 2 == 0 ? Element::low(pairs[i / 2]) : Element::high(pairs[i / 2]), wanted);
        EXPECT_EQ(matrix.one(row, column + i), wanted);
      }
    }
  }
}

TEST(MatrixLeaf, ReadsNothingOutsideTheMatrix) {
  ExpectNothingReadOutside<Integer16, 11, u16>(13, 3);
  ExpectNothingReadOutside<Float32, 11, float>(11, 3);
}

template <class Rule>
u32 Added(float low, float high) {  // to 3 and 10
  Rule::template add<Integer16>(low, high, 3, 10);
  return Integer16::pack(low, high);
}

TEST(AddMatrix, RoundsTheResultFirstWhereTheChainDoes) {  // Integer16 rounds toward zero
  EXPECT_EQ(Added<AddMatrix<false>>(-0.5f, 1.75f), Integer16::pack(2, 11));
  EXPECT_EQ(Added<AddMatrix<true>>(-0.5f, 1.75f), Integer16::pack(3, 11));
}

TEST(AddMatrix, ActivatesTheSum) {
  EXPECT_EQ((Added<AddMatrix<false, Relu>>(-5, -9)), Integer16::pack(0, 1));
  EXPECT_EQ((Added<AddMatrix<false, Relu>>(5, -11)), Integer16::pack(8, 0));
}

TEST(GlobalWriter, WritesNothingOutsideTheMatrix) {
  constexpr int kColumns = 11, kRows = 3;
  for (int column = 0; column < 24; column += 8) {
    for (int row = 0; row < 6; ++row) {
      std::vector<u16> out((kRows + 3) * (kColumns + 2), kPoison);
      const GlobalWriter<Integer16, kColumns, false> writer{out.data(), kColumns + 2, kRows};
      writer.group(row, column, Word4{0x20001, 0x40003, 0x60005, 0x80007});
      for (int i = 0; i < static_cast<int>(out.size()); ++i) {
        const int r = i / (kColumns + 2), c = i % (kColumns + 2);
        const bool inside =
            r == row && row < kRows && c >= column && c < column + 8 && c < kColumns;
        EXPECT_EQ(out[static_cast<size_t>(i)], inside ? c - column + 1 : kPoison);
      }
    }
  }
}

}  // namespace
}  // namespace sinter
