// Products of 8-bit elements on the host's machine: maps of bytes, sums that are promoted in parts
// or fast, factors of rows and columns, results of 16 bits and of f32. Blocks of integers stand for
// e4m3.
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

// block_m, block_k, stages, cluster, warpgroups m and n, width, n, k, block_n, split_k, shares of
// weights and rows, swapped.
template <int kBlockM, int kBlockK, int kCluster, int kWarpgroupsM, int kWarpgroupsN, int kWidth,
          int kN, int kK, int kBlockN, int kSplit, int kWeightsShare = 1, int kRowsShare = 1,
          bool kSwapped = false, class Element = Integer8, int kStages = 3>
using OfBytes =
    TestConfig<kBlockM, kBlockK, kStages, kCluster, kWarpgroupsM, kWarpgroupsN, false, kWidth, kN,
               kK, kBlockN, kSplit, kN, kBlockN, 1, kWeightsShare, kRowsShare, kSwapped, Element>;

template <class Config>
class Codes : public Products<Config> {
 protected:
  using P = typename Config::First;
};
using CodesConfigs =
    Forms<OfBytes<64, 128, 1, 1, 1, 1, 80, 272, 40, 1>,
          OfBytes<128, 128, 1, 2, 1, 2, 264, 144, 128, 1>,  // two parts: gate and up
          OfBytes<72, 256, 2, 2, 1, 1, 251, 528, 208, 2>,   // two parts of 104 columns
          OfBytes<8, 256, 4, 1, 2, 2, 96, 1024, 48, 4>,
          OfBytes<16, 128, 1, 1, 1, 1, 136, 400, 64, 1, 1, 1, true>,
          OfBytes<40, 256, 2, 1, 2, 2, 136, 528, 128, 2, 1, 1, true>,
          OfBytes<88, 128, 1, 1, 1, 2, 72, 144, 64, 1, 1, 1, true>,  // two parts: sets
          OfBytes<24, 128, 8, 1, 1, 1, 64, 1040, 64, 8, 1, 1, true>,
          // Fast sums: one wgmma for all columns, four stages and fewer.
          OfBytes<64, 128, 1, 1, 1, 2, 264, 144, 128, 1, 1, 1, false, FastInteger8, 4>,
          OfBytes<72, 256, 2, 2, 1, 1, 251, 528, 208, 2, 1, 1, false, FastInteger8>,
          OfBytes<88, 128, 1, 1, 1, 2, 72, 400, 64, 1, 1, 1, true, FastInteger8, 4>,
          // Integers: sums in s32.
          OfBytes<64, 128, 2, 1, 2, 2, 136, 400, 96, 2, 1, 1, false, Signed8, 4>,
          OfBytes<48, 256, 1, 1, 1, 2, 72, 528, 64, 1, 1, 1, true, Signed8>>;
TYPED_TEST_SUITE(Codes, CodesConfigs);

TYPED_TEST(Codes, AreExactFromTmaToTheStoredElement) {
  this->template ExpectAllTiles<typename TypeParam::First>(TypeParam::kBlockM + 5);
}

// The same product, stored in f32.
template <class Config>
struct InF32 : Config {
  using Result = Float32;
};

struct Linear {
  static float apply(float x) { return x; }
};

// Factors are powers of two, so only the gate's one rounding makes results inexact.
TYPED_TEST(Codes, AreDequantisedAndStoredInF32) {
  using Config = TypeParam;
  using P = typename Config::First;
  using Scaling = ColumnFactors<RowFactors<Float32>, false>;
  constexpr int kRows = Config::kBlockM + 5, kStride = P::kN + P::kN % 2;
  constexpr float kUnwritten = -1e30f;
  const Operands<Config, P> operands(TestMatrix(kRows, P::kK, 5), 6);
  const std::vector<u16> bias = TestBias(P::kN);
  std::vector<float> of_rows, of_columns, of_up, out(kRows * kStride + 1, kUnwritten);
  for (int i = 0; i < kRows; ++i) of_rows.push_back(static_cast<float>(1 << i % 3));
  for (int i = 0; i < P::kN; ++i) {
    of_columns.push_back(i % 2 == 0 ? 0.5f : 2.0f);
    of_up.push_back(i % 3 == 0 ? 0.25f : 1.0f);
  }
  const Epilogue<P, Integer16, Linear, true, Scaling> epilogue{
      bias.data(),
      bias.data(),
      {RowFactors<Float32>::of(of_rows.data(), 1, kRows), of_columns.data(), of_up.data()}};
  const GlobalWriter<Float32, P::kN, P::kN % 8 == 0> writer{out.data(), kStride, kRows};
  for (int row = 0; row < kRows; row += Config::kBlockM) {
    for (int column = 0; column < P::kN; column += P::kBlockN) {
      machine.Reset(P::kSplitK);
      std::vector<Accumulators<P>> ranks;
      for (int rank = 0; rank < P::kSplitK; ++rank) {
        machine.rank = rank;
        ranks.push_back(RunTile<Config, P, true>(operands, 0, row, column, P::first_block(rank),
                                                 P::first_block(rank + 1)));
      }
      machine.Reset(P::kSplitK);
      if constexpr (P::kSplitK > 1)
        ReduceTile<InF32<Config>, P>(ranks, epilogue, writer, row, column);
      else
        WriteTile<InF32<Config>, P>(ranks[0], epilogue, writer, row, column);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int n = 0; n < kStride; ++n) {
      const float got = out[static_cast<size_t>(row * kStride + n)];
      if (n >= P::kN) {
        ASSERT_EQ(got, kUnwritten) << "behind row " << row;
        continue;
      }
      const auto c = static_cast<size_t>(n);
      const float scale = of_rows[static_cast<size_t>(row)], add = Integer16::unpack(bias[c]);
      float want =
          scale * of_columns[c] * Dot<Config>(operands.rows, operands.weights, row, n, 0, P::kK) +
          add;
      if (P::kWidth == 2)
        want *= scale * of_up[c] * Dot<Config>(operands.rows, operands.up, row, n, 0, P::kK) + add;
      ASSERT_EQ(got, want) << row << ", " << n;
    }
  }
  EXPECT_EQ(out.back(), kUnwritten);
}

template <class Config>
class SharedCodes : public ::testing::Test {};
using SharedCodesConfigs = Forms<OfBytes<64, 128, 2, 1, 1, 1, 96, 272, 48, 1, 2, 1>,
                                 OfBytes<48, 256, 4, 1, 2, 1, 136, 528, 128, 2, 1, 2, true>>;
TYPED_TEST_SUITE(SharedCodes, SharedCodesConfigs);

TYPED_TEST(SharedCodes, GiveEachBlockOfAPairItsTile) {
  using P = typename TypeParam::First;
  constexpr int kRows = 2 * TypeParam::kBlockM - 11;
  ExpectPairsHaveTheirTiles<TypeParam>(Operands<TypeParam, P>(TestMatrix(kRows, P::kK, 21), 22),
                                       kRows);
}

// Sums of 128 of K under scales of rows and of 128 columns, powers of two.
template <class Config>
class ScaledBlocks : public ::testing::Test {};
using ScaledBlocksConfigs =
    Forms<OfBytes<64, 128, 1, 1, 1, 1, 200, 384, 64, 1>,
          OfBytes<32, 256, 1, 1, 2, 1, 136, 384, 128, 1>,  // half a stage past K
          OfBytes<16, 256, 2, 1, 1, 2, 72, 640, 64, 2, 1, 1, true>,
          OfBytes<128, 256, 2, 2, 1, 2, 264, 512, 128, 2>,
          OfBytes<16, 128, 1, 1, 2, 2, 160, 256, 64, 1>,
          OfBytes<24, 256, 2, 1, 1, 1, 328, 512, 128, 2, 1, 1, true>,
          OfBytes<40, 128, 1, 1, 3, 2, 200, 256, 192, 1, 1, 1, true>,
          OfBytes<88, 128, 1, 1, 1, 2, 136, 128, 128, 1, 1, 1, true>>;
TYPED_TEST_SUITE(ScaledBlocks, ScaledBlocksConfigs);

struct BlockValues {
  std::vector<float> of_rows, gate, up;
  // `rows_at` and `columns_at`: the place of the value of a row, or of 128 columns, and a group.
  template <class RowsAt, class ColumnsAt>
  BlockValues(int rows, int columns, int groups, const RowsAt& rows_at,
              const ColumnsAt& columns_at) {
    const int blocks = (columns + 127) / 128;
    of_rows.assign(static_cast<size_t>(rows_at(rows - 1, groups - 1) + 65), NAN);
    gate.assign(static_cast<size_t>(columns_at(blocks - 1, groups - 1) + 65), NAN);
    up = gate;
    for (int g = 0; g < groups; ++g) {
      for (int i = 0; i < rows; ++i) {
        of_rows[static_cast<size_t>(rows_at(i, g))] = static_cast<float>(1 << (i * groups + g) % 3);
      }
      for (int i = 0; i < blocks; ++i) {
        const auto at = static_cast<size_t>(columns_at(i, g));
        gate[at] = (i * groups + g) % 2 == 0 ? 1.0f : 4.0f;
        up[at] = (i * groups + g) % 3 == 0 ? 2.0f : 1.0f;
      }
    }
  }
};

// Values between those that a kernel is to read are NaN.
template <class Config, class Scales, class RowsAt, class ColumnsAt>
void ExpectScaledSums(const RowsAt& rows_at, const ColumnsAt& columns_at) {
  using P = typename Config::First;
  constexpr int kRows = Config::kBlockM + 5, kGroups = P::kK / 128;
  const Operands<Config, P> o(TestMatrix(kRows, P::kK, 5), 6);
  const BlockValues values(kRows, P::kN, kGroups, rows_at, columns_at);
  constexpr int kColumn = P::kBlockN < P::kN ? P::kBlockN : 0;  // of the tile
  for (int row = 0; row < kRows; row += Config::kBlockM) {
    for (int rank = 0; rank < P::kSplitK; ++rank) {
      machine.Reset(1);
      const int begin = P::first_block(rank), end = P::first_block(rank + 1);
      const Scales scales{values.of_rows.data(), values.gate.data(), values.up.data(), kRows,
                          begin * P::kSubtiles};
      const auto sums = RunTile<Config, P, true>(o, 0, row, kColumn, begin, end, scales);
      for (int t = 0; t < kConsumers<Config>; ++t) {
        for (int i = 0; i < P::kAccumulators; ++i) {
          const TilePlace at = PlaceInTile<Config, P>(PlaceOf<Config>(t), i);
          const int n = kColumn + at.column, m = row + at.row;
          if (at.row >= Config::kBlockM || m >= kRows || n >= P::kN) continue;
          float want = 0;
          for (int k = begin * Config::kBlockK; k < end * Config::kBlockK && k < P::kK; k += 128) {
            const auto of_columns = static_cast<size_t>(columns_at(n / 128, k / 128));
            want += Dot<Config>(o.rows, at.is_up ? o.up : o.weights, m, n, k, k + 128) *
                    values.of_rows[static_cast<size_t>(rows_at(m, k / 128))] *
                    (at.is_up ? values.up : values.gate)[of_columns];
          }
          ASSERT_EQ(sums[static_cast<size_t>(t)][static_cast<size_t>(i)], want) << m << ", " << n;
        }
      }
    }
  }
}

TYPED_TEST(ScaledBlocks, MultiplyTheSumsOfTheirElements) {
  constexpr int kGroups = TypeParam::First::kK / 128;
  const auto contiguous = [](int i, int g) { return i * kGroups + g; };
  ExpectScaledSums<TypeParam, BlockScales<true, true>>(contiguous, contiguous);
}

TYPED_TEST(ScaledBlocks, AreReadWhereTheyLie) {
  constexpr int kGroups = TypeParam::First::kK / 128, kRows = TypeParam::kBlockM + 5;
  const auto padded = [](int i, int g) { return i * (kGroups + 3) + g; };
  const auto columns = [](int i, int g) { return i + g * 7; };  // column-major
  const auto apart = [](int i, int g) { return i + g * 300; };
  const auto m_apart = [](int i, int g) { return 2 * i + g * 2 * kRows; };
  using Padded = Strided<kGroups + 3, 1>;
  using Columns = Strided<1, 7>;
  ExpectScaledSums<TypeParam, BlockScales<true, true, Padded, Columns>>(padded, columns);
  ExpectScaledSums<TypeParam, BlockScales<true, true, Strided<1, 300>, Padded>>(apart, padded);
  ExpectScaledSums<TypeParam, BlockScales<true, true, Strided<2, 2, true>, Columns>>(m_apart,
                                                                                     columns);
}

TEST(Scaling, FactorsLieApart) {
  const float rows[] = {2, NAN, NAN, 3, NAN, NAN, 5}, columns[] = {7, NAN, 11};
  const auto of_rows = RowFactors<Float32, 3>::of(rows, 10, 3, 1);
  EXPECT_EQ(of_rows.at(0), 30);
  EXPECT_EQ(of_rows.at(1), 50);
  EXPECT_EQ(of_rows.at(2), 0);
  const ColumnFactors<NoScaling, false, Float32, 2> scaling{{}, columns, columns};
  const FloatPair pair = scaling.pair<2>(scaling.factors, 0);
  EXPECT_EQ(pair.low, 7);
  EXPECT_EQ(pair.high, 11);
}

// A sum above 2^24 that f32 does not hold on its way.
TEST(ExactSums, AreRoundedOnceWhenTheyAreWhole) {
  using Config = OfBytes<64, 128, 1, 1, 1, 1, 64, 1152, 64, 1, 1, 1, false, Signed8, 4>;
  using P = Config::First;
  Operands<Config, P> o(TestMatrix(64, P::kK, 1), 2);
  std::fill(o.rows.data.begin(), o.rows.data.end(), 127);
  std::fill(o.weights.data.begin(), o.weights.data.end(), 127);
  for (size_t i = 0; i < o.weights.data.size(); i += 64) o.weights.data[i] = 1;
  machine.Reset(1);
  const auto sums = RunTile<Config, P, true>(o, 0, 0, 0, 0, P::kKBlocks);
  constexpr int kExact = P::kK / 64 * 127 * (63 * 127 + 1), kCoarse = 1 << 24;
  static_assert(kExact > kCoarse && kExact % 2 == 0, "not every such sum is an f32");
  for (const auto& thread : sums) {
    for (const float sum : thread) ASSERT_EQ(sum, static_cast<float>(kExact));
  }
}

TEST(Scaling, OneFactorMultipliesAllRows) {
  const float factor = 3;
  EXPECT_EQ(OneFactor<Float32>::of(&factor, 2, 1).at(77), 6);
}

}  // namespace
}  // namespace sinter
