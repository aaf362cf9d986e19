// Resident weights on the host's machine: a cluster's blocks load their weights once, then lanes
// take row tile after row tile, from TMA to the stored element.
#include "src/product/schedule.h"
#include "tests/unit/device/filters.h"
#include "tests/unit/device/product_fixtures.h"

namespace sinter {
namespace {

// block_k, stages, cluster, lanes, io, width, n, columns of a chunk, l, wgmma columns of l.
template <class F, int kBlockK, int kStages, int kCluster, int kLanes, bool kTransposed, int kWidth,
          int kN, int kChunk, int kL, int kWide>
struct Resident : TestConfig<64 * kLanes, kBlockK, kStages, kCluster, kLanes, 1, kTransposed,
                             kWidth, kN, F::kStaged, kChunk, 1, kL, kWide, kCluster, 1, 1, false,
                             Integer16, typename F::Rows> {
  using Shown = F;
};

// Rows that lie as they are multiplied.
template <int kCount, int kDepth>
struct Flat {
  using Rows = PlainRows;
  static constexpr int kRows = kCount, kStaged = kDepth;
};

template <class Lane, class F>
Operands<Lane, typename Lane::First> RowsAndFirst() {
  if constexpr (F::Rows::kIsWindow)
    return OperandsOf<Lane, F>(5);
  else
    return {TestMatrix(F::kRows, F::kStaged, 5), 6};
}

template <class Config>
class ResidentWeights : public ::testing::Test {
 protected:
  using T = ResidentWeightsTypes<Config>;
  using Lane = typename T::Lane;
  using First = typename T::First;
  using Second = typename T::Second;
  using F = typename Config::Shown;
  static constexpr int kClusters = 2;
  const Operands<Lane, First> first_ = RowsAndFirst<Lane, F>();
  const std::vector<u16> bias_ = TestBias(First::kN), no_bias_ = std::vector<u16>(Second::kN);
  const Operands<Lane, Second> second_{C(), 12};
  std::vector<u16> out_ =
      std::vector<u16>(static_cast<size_t>((F::kRows + 1) * Second::kN), kPoison);

  Matrix C() const {
    Matrix c;
    c.rows = F::kRows, c.columns = First::kN;
    for (int i = 0; i < c.rows * c.columns; ++i)
      c.data.push_back(static_cast<u16>(
          static_cast<int>(Finished<Lane, First>(first_, bias_, i / c.columns, i % c.columns))));
    return c;
  }

  Arguments Given() const {
    Arguments args = {};
    args.a = &first_.rows_map;
    args.w1 = &first_.weights_map;
    args.w_up = &first_.up_map;
    args.w2 = &second_.weights_map;
    args.m = F::kRows;
    return args;
  }

  // What `rank` holds of E of the lane's tile number `tile`, whose first row is `row`.
  Accumulators<Second> TileOf(int rank, int lane, int tile, int row) {
    machine.rank = rank;
    const typename T::BlockType block;
    const ResidentPlace<Config> at{block, lane};
    const TestEpilogue<First> epilogue{{bias_.data(), bias_.data()}};
    Accumulators<Second> e(128);
    for (int warp = 0; warp < 4; ++warp) {
      machine.RunWarp([&](int in_warp) {
        const int t = warp * 32 + in_warp;
        threadIdx.x = 128 + static_cast<unsigned>(t);
        typename T::CursorType cursor;
        for (int i = 0; i < tile * First::kKBlocks; ++i) cursor.advance();
        multiply_tile<Config, NoScaling>(AsArray(e[static_cast<size_t>(t)]), cursor, at, epilogue,
                                         row, {0, 0, t});
      });
    }
    return e;
  }

  void Store(const std::vector<Accumulators<Second>>& ranks, int row) {
    const Epilogue<Second, Integer16, Fold, true> epilogue{no_bias_.data(), no_bias_.data()};
    const GlobalWriter<Integer16, Second::kN, Second::kN % 8 == 0> writer{out_.data(), Second::kN,
                                                                          F::kRows};
    machine.Reset(Config::kCluster);
    if constexpr (Second::kSplitK > 1)
      ReduceTile<Lane, Second>(ranks, epilogue, writer, row, 0);
    else
      WriteTile<Lane, Second>(ranks[0], epilogue, writer, row, 0);
  }

  // All tiles of one lane of one cluster; the ring holds their rows.
  void RunLane(int cluster, int lane) {
    const Arguments args = Given();
    machine.Reset(Config::kCluster);
    std::vector<int> rows;
    for (int rank = 0; rank < Config::kCluster; ++rank) {
      machine.rank = rank;
      blockIdx.x = static_cast<unsigned>(cluster * Config::kCluster + rank);
      const typename T::BlockType block;
      const ResidentPlace<Config> at{block, lane};
      produce_resident<Config>(args, at);
      produce_lane<Config>(args, at);
      rows.clear();
      for (int row = at.first_row(); row < args.m; row += at.step()) rows.push_back(row);
    }
    ExpectBarriersComplete();
    ASSERT_LE(rows.size() * First::kKBlocks, size_t{Config::kStages}) << "the test's ring";
    std::vector<std::vector<Accumulators<Second>>> tiles(rows.size());
    for (size_t tile = 0; tile < rows.size(); ++tile)
      for (int rank = 0; rank < Config::kCluster; ++rank)
        tiles[tile].push_back(TileOf(rank, lane, static_cast<int>(tile), rows[tile]));
    for (size_t tile = 0; tile < rows.size(); ++tile) Store(tiles[tile], rows[tile]);
  }
};

using Residents = Forms<Resident<Flat<300, 72>, 64, 6, 1, 2, false, 1, 192, 64, 43, 48>,
                        Resident<Flat<250, 136>, 128, 4, 1, 1, false, 2, 104, 112, 64, 64>,
                        Resident<Flat<200, 64>, 64, 4, 2, 2, true, 1, 200, 64, 72, 128>,
                        Resident<Flat<130, 40>, 128, 3, 4, 1, false, 1, 512, 128, 40, 40>,
                        Resident<Same3, 64, 9, 1, 2, false, 1, 64, 64, 104, 104>,
                        Resident<Forty, 64, 9, 2, 1, false, 1, 128, 64, 72, 72>>;
TYPED_TEST_SUITE(ResidentWeights, Residents);

TYPED_TEST(ResidentWeights, AreExactFromTmaToTheStoredElement) {
  using Second = typename TestFixture::Second;
  using Lane = typename TestFixture::Lane;
  gridDim.x = TestFixture::kClusters * TypeParam::kCluster;
  for (int cluster = 0; cluster < TestFixture::kClusters; ++cluster) {
    for (int lane = 0; lane < TypeParam::kWarpgroupsM; ++lane) {
      this->RunLane(cluster, lane);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  const int elements = TestFixture::F::kRows * Second::kN;
  for (size_t i = 0; i < this->out_.size(); ++i) {
    const int row = static_cast<int>(i) / Second::kN, column = static_cast<int>(i) % Second::kN;
    if (static_cast<int>(i) >= elements) {
      ASSERT_EQ(this->out_[i], kPoison) << "a write past m";
      continue;
    }
    const float want = Fold::apply(
        Dot<Lane>(this->second_.rows, this->second_.weights, row, column, 0, Second::kK));
    ASSERT_EQ(Integer16::unpack(this->out_[i]), want) << row << ", " << column;
  }
}

TYPED_TEST(ResidentWeights, SizesAgreeWithThePlan) {
  using T = typename TestFixture::T;
  using First = typename TestFixture::First;
  using Second = typename TestFixture::Second;
  ProductSequence p = MakeSequence(
      TestFixture::F::kRows,
      MakeProduct(First::kN, First::kK, Activation::kRelu, First::kWidth == 2), Second::kN);
  SetLayout(&p, TypeParam::kWeightsTransposed ? Layout::kIO : Layout::kOI);
  Schedule s{.dataflow = Dataflow::kResidentWeights,
             .block_m = TypeParam::kBlockM,
             .warpgroups_m = TypeParam::kWarpgroupsM,
             .block_k = TypeParam::kBlockK,
             .stages = TypeParam::kStages,
             .cluster = TypeParam::kCluster,
             .grid = TypeParam::kCluster,
             .first = {First::kBlockN, 1},
             .second = {Second::kBlockN, TypeParam::kCluster}};
  EXPECT_OK(CheckScheduleFields(p, s));
  const ScheduleSizes z = SizesOf(p, s);
  EXPECT_EQ(T::Layout::kStageBytes, z.stage_bytes);
  EXPECT_EQ(T::kChunks * T::kChunkBytes, z.weights_bytes);
  EXPECT_EQ(T::kLanes * Second::kPartBytes, z.reduce_bytes);
  EXPECT_EQ(T::Layout::kBytes, z.shared_bytes);
}

}  // namespace
}  // namespace sinter
