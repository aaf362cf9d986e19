// Clusters that share a row tile by ranges of N: the slab that each holds, and the way of its part
// of E through L2 into the stored result, against the exact product.
#include "src/product/schedule.h"
#include "tests/support/sequences.h"
#include "tests/unit/device/tile_runs.h"

namespace sinter {
namespace {

using hardware::machine;
using hardware::Matrix;

constexpr u32 kSlab = 64 * 1024, kTakenAt = 1024, kBarrier = hardware::kWindow - 512;

template <class Config>
class Clusters : public ::testing::Test {
 protected:
  using T = ClusterRangesTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
  using Parts = typename T::Parts;
  static constexpr int kThreads = Parts::kThreads, kBlocks = T::kClusters * Config::kCluster;

  void SetUp() override { machine.Reset(Config::kCluster); }

  static WarpgroupPlace PlaceOf(int thread) {
    const int warpgroup = thread / 128;
    return {warpgroup % Config::kWarpgroupsM, warpgroup / Config::kWarpgroupsM, thread % 128};
  }

  // `block` of the launch, of the row tile at `tile`.
  static ClusterPlace<Config> PlaceOfBlock(int block, int tile = 0) {
    machine.rank = block % Config::kCluster;
    blockIdx.x = static_cast<unsigned>(tile * kBlocks + block);
    return ClusterPlace<Config>(machine.rank);
  }

  // A consumer thread's accumulators of the tile of P at `column`: `value` of row and column.
  template <class P, class Value>
  static void Fill(float (&d)[P::kAccumulators], int thread, int column, Value&& value) {
    const WarpgroupPlace place = PlaceOf(thread);
    for (int i = 0; i < P::kAccumulators; ++i) {
      const auto at = hardware::AccumulatorPlace(place.thread, i);
      d[i] = value(place.m * 64 + at.row, column + place.n * P::kHalf + at.column % P::kHalf,
                   at.column >= P::kHalf);
    }
  }

  // Every block's part of E = rows x weights into `scratch`, over its cluster's range of K only.
  void GiveAll(const Matrix& rows, const Matrix& weights, std::vector<float>* scratch) {
    for (int block = 0; block < kBlocks; ++block) {
      const ClusterPlace<Config> at = PlaceOfBlock(block);
      const Parts parts{scratch->data() + at.first_block() * Parts::kTileFloats, at.part, kTakenAt};
      for (int t = 0; t < kThreads; ++t) {
        float d[Second::kAccumulators];
        Fill<Second>(d, t, at.e_column(), [&](int row, int column, bool) {
          return Dot<Config>(rows, weights, row, column, at.begin() * Config::kBlockK,
                             at.end() * Config::kBlockK);
        });
        parts.give(d, PlaceOf(t));
      }
    }
  }

  // Takes, sums and stores every block's share of the rows from `row`.
  template <class Writer, class Matrix, class Scaling = NoScaling>
  void SumAll(std::vector<float>* scratch, const Writer& writer, const Matrix& matrix,
              const Scaling& scaling = {}) {
    const Epilogue<Second, Integer16, Fold, false, Scaling> epilogue{nullptr, nullptr, scaling};
    for (int block = 0; block < kBlocks; ++block) {
      const ClusterPlace<Config> at = PlaceOfBlock(block);
      const Parts parts{scratch->data() + at.first_block() * Parts::kTileFloats, at.part, kTakenAt};
      machine.Expect(kBarrier, T::kClusters * parts.share_bytes());
      for (int i = 0; i < T::kClusters; ++i) parts.take(i, kBarrier);
      for (int t = 0; t < kThreads; ++t) {
        threadIdx.x = 128 + static_cast<unsigned>(t);
        parts.fetch(matrix, at.row, at.e_column());
        parts.sum(epilogue, writer, at.row, at.e_column(), matrix);
      }
    }
    for (const auto& [barrier, bytes] : machine.barriers())
      EXPECT_EQ(bytes.expected, bytes.arrived) << "barrier " << barrier;
  }
};

// bm, bk, stages, cluster, wgm, wgn, io, width, n, k, bn1, split1, l, bn2, split2
using RangesConfigs = Forms<TestConfig<64, 64, 4, 2, 1, 1, false, 1, 328, 64, 32, 1, 43, 24, 1>,
                            TestConfig<16, 64, 3, 8, 1, 1, false, 1, 1000, 64, 24, 1, 64, 8, 1>,
                            TestConfig<128, 128, 2, 4, 2, 1, false, 2, 600, 128, 32, 1, 136, 40, 1>,
                            TestConfig<64, 64, 2, 4, 1, 2, true, 2, 1032, 64, 128, 1, 392, 128, 1>,
                            TestConfig<8, 64, 2, 1, 1, 1, false, 1, 256, 64, 64, 1, 24, 24, 1>,
                            TestConfig<72, 64, 2, 16, 2, 1, false, 1, 264, 64, 8, 1, 100, 8, 1>>;
TYPED_TEST_SUITE(Clusters, RangesConfigs);

TYPED_TEST(Clusters, BlocksOwnEveryRangeOnceAndNoneIsEmpty) {
  using T = typename TestFixture::T;
  for (int tile : {0, 1, 5}) {
    for (int block = 0; block < TestFixture::kBlocks; ++block) {
      const auto at = TestFixture::PlaceOfBlock(block, tile);
      EXPECT_EQ(at.row, tile * TypeParam::kBlockM);
      EXPECT_EQ(at.part, block / TypeParam::kCluster);
      EXPECT_EQ(at.first_block(), tile * TestFixture::kBlocks + at.rank);
      EXPECT_EQ(at.c_column(), block * T::First::kBlockN);
      EXPECT_LT(at.begin(), at.end());
      EXPECT_EQ(at.begin() * TypeParam::kBlockK, at.first_column());
    }
  }
  EXPECT_EQ(TestFixture::PlaceOfBlock(TestFixture::kBlocks - 1).end(), T::Second::kKBlocks);
}

// C as the second GEMM reads it: the range's columns, and zeros past N whatever was computed there.
TYPED_TEST(Clusters, SlabsHoldTheirRangeOfC) {
  using T = typename TestFixture::T;
  using First = typename T::First;
  const Matrix c = TestMatrix(TypeParam::kBlockM, First::kN, 11);
  const Epilogue<First, Integer16, Identity, false> epilogue{nullptr, nullptr};
  for (int part = 0; part < T::kClusters; ++part) {
    machine.Reset(TypeParam::kCluster);
    for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
      const auto at = TestFixture::PlaceOfBlock(part * TypeParam::kCluster + rank);
      const RangeWriter<TypeParam> writer{{kSlab, kBarrier}, at.first_column()};
      machine.Expect(kBarrier, DsmShuffle<TypeParam, T::kColumns>::kBytes);
      for (int warp = 0; warp < TestFixture::kThreads / 32; ++warp) {
        machine.RunWarp([&](int lane) {
          const int t = warp * 32 + lane;
          threadIdx.x = 128 + static_cast<unsigned>(t);
          float d[First::kAccumulators];
          TestFixture::template Fill<First>(
              d, t, at.c_column(), [&](int row, int column, bool up) -> float {
                if (column >= First::kN) return 9;  // an infinity times a weight's zero, say
                return up ? 1.0f : static_cast<int16_t>(c.At(row, column));
              });
          const WarpgroupPlace place = TestFixture::PlaceOf(t);
          WriteOwn<TypeParam, First>(d, epilogue, writer, 0, at.c_column(), place);
        });
      }
    }
    for (const auto& [barrier, bytes] : machine.barriers())
      EXPECT_EQ(bytes.expected, bytes.arrived) << "barrier " << barrier;
    for (int rank = 0; rank < TypeParam::kCluster; ++rank) {
      machine.rank = rank;
      for (int row = 0; row < TypeParam::kBlockM; ++row) {
        for (int column = 0; column < T::kColumns; ++column) {
          const u32 at =
              kSlab + static_cast<u32>(swizzled_offset<Integer16>(TypeParam::kBlockM, row, column));
          ASSERT_EQ(machine.Load<u16>(at), c.At(row, part * T::kColumns + column))
              << "part " << part << " rank " << rank << ": " << row << ", " << column;
        }
      }
    }
  }
}

TYPED_TEST(Clusters, PartsAddUpToTheProduct) {
  using T = typename TestFixture::T;
  using Second = typename T::Second;
  const int m = TypeParam::kBlockM - 3;
  const Matrix rows = TestMatrix(TypeParam::kBlockM, Second::kK, 5);
  const Matrix weights = TestWeights<TypeParam, Second>(6);
  std::vector<float> scratch(
      static_cast<size_t>(TestFixture::kBlocks * TestFixture::Parts::kTileFloats),
      std::numeric_limits<float>::quiet_NaN());
  this->GiveAll(rows, weights, &scratch);
  const int elements = (m + 1) * Second::kN;
  std::vector<u16> out(static_cast<size_t>(elements), kPoison), sum = out;
  std::vector<u16> residual = TestMatrix(m, Second::kN, 33).data;
  constexpr bool kAligned = Second::kN % 8 == 0;
  this->SumAll(&scratch, GlobalWriter<Integer16, Second::kN, kAligned>{out.data(), Second::kN, m},
               NoMatrix());
  using Beside = MatrixLeaf<Integer16, Second::kN, kAligned, AddMatrix<false, Fold>>;
  this->SumAll(&scratch, GlobalWriter<Integer16, Second::kN, kAligned>{sum.data(), Second::kN, m},
               Beside::of(residual.data(), Second::kN, m));
  std::vector<u16> of_wide(static_cast<size_t>(elements), kPoison);
  std::vector<float> wide;
  for (int i = 0; i < m * Second::kN; ++i) wide.push_back(static_cast<float>(i % 11));
  this->SumAll(&scratch,
               GlobalWriter<Integer16, Second::kN, kAligned>{of_wide.data(), Second::kN, m},
               MatrixLeaf<Float32, Second::kN, kAligned>::of(wide.data(), Second::kN, m));
  std::vector<u16> scaled(static_cast<size_t>(elements), kPoison);
  std::vector<float> factors;
  for (int row = 0; row < m; ++row) factors.push_back(static_cast<float>(1 + row % 3));
  this->SumAll(&scratch,
               GlobalWriter<Integer16, Second::kN, kAligned>{scaled.data(), Second::kN, m},
               NoMatrix(), RowFactors<Float32>::of(factors.data(), 2, m));
  for (int i = 0; i < elements; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i >= m * Second::kN) {
      ASSERT_EQ(scaled[at], kPoison) << "a write past m";
      ASSERT_EQ(out[at], kPoison) << "a write past m";
      ASSERT_EQ(sum[at], kPoison) << "a write past m";
      ASSERT_EQ(of_wide[at], kPoison) << "a write past m";
      continue;
    }
    const int row = i / Second::kN, column = i % Second::kN;
    const float dot = Dot<TypeParam>(rows, weights, row, column, 0, Second::kK);
    const float want = Fold::apply(dot);
    ASSERT_EQ(Integer16::unpack(scaled[at]),
              Fold::apply(2 * factors[static_cast<size_t>(row)] * dot))
        << row << ", " << column;
    ASSERT_EQ(Integer16::unpack(out[at]), want) << row << ", " << column;
    ASSERT_EQ(Integer16::unpack(sum[at]), Fold::apply(want + Integer16::unpack(residual[at])))
        << row << ", " << column;
    ASSERT_EQ(Integer16::unpack(of_wide[at]), want + wide[at]) << row << ", " << column;
  }
}

TYPED_TEST(Clusters, SizesAgreeWithThePlan) {
  using T = typename TestFixture::T;
  ProductSequence p = MakeSequence(
      2 * TypeParam::kBlockM,
      MakeProduct(T::First::kN, T::First::kK, Activation::kIdentity, T::First::kWidth == 2),
      T::Second::kN);
  SetLayout(&p, TypeParam::kWeightsTransposed ? Layout::kIO : Layout::kOI);
  Schedule s{.dataflow = Dataflow::kClusterRanges,
             .block_m = TypeParam::kBlockM,
             .warpgroups_m = TypeParam::kWarpgroupsM,
             .warpgroups_n = TypeParam::kWarpgroupsN,
             .block_k = TypeParam::kBlockK,
             .stages = TypeParam::kStages,
             .cluster = TypeParam::kCluster,
             .cut = T::kClusters,
             .grid = 2 * TestFixture::kBlocks,
             .first = {T::First::kBlockN, 1},
             .second = {T::Second::kBlockN, 1}};
  EXPECT_OK(CheckScheduleFields(p, s));
  const ScheduleSizes z = SizesOf(p, s);
  EXPECT_EQ(T::Layout::kStageBytes, z.stage_bytes);
  EXPECT_EQ(T::kExchangeBytes, z.kept_bytes);
  EXPECT_EQ(T::Layout::kBytes, z.shared_bytes);
  EXPECT_EQ(z.partial_out_bytes, int64_t{4} * s.grid * TestFixture::Parts::kTileFloats);
  EXPECT_EQ(z.flag_bytes, 4 * (kFlags + s.grid));
}

}  // namespace
}  // namespace sinter
