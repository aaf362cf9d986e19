// Where the kernels put things in shared memory, against the plan's sizes; and how they walk tiles.
#include "src/product/schedule.h"
#include "src/product/schedule_check.h"
#include "src/product/search/product_load.h"
#include "tests/support/sequences.h"
#include "tests/unit/device/forms.h"
#include "tests/unit/device/kernel_configs.h"

namespace sinter {
namespace {

template <class Config>
ProductSequence ProblemOf(int products) {
  using First = typename Config::First;
  const MatrixProduct first =
      MakeProduct(First::kN, First::kK, Activation::kIdentity, First::kWidth == 2);
  const int64_t m = Config::kBlockM;
  ProductSequence p =
      products == 2 ? MakeSequence(m, first, Config::Second::kN) : MakeSequence(m, first);
  SetLayout(&p, Config::kWeightsTransposed ? Layout::kIO : Layout::kOI);
  if (Config::Element::kBytes == 1) SetElement(&p, DType::kE4M3);
  return p;
}

template <class Config>
Schedule ScheduleOf(Dataflow dataflow) {
  return Schedule{.dataflow = dataflow,
                  .block_m = Config::kBlockM,
                  .warpgroups_m = Config::kWarpgroupsM,
                  .warpgroups_n = Config::kWarpgroupsN,
                  .swapped = Config::kSwapped,
                  .block_k = Config::kBlockK,
                  .stages = Config::kStages,
                  .cluster = Config::kCluster,
                  .grid = 8 * Config::kCluster,
                  .first = {Config::First::kBlockN, Config::First::kSplitK},
                  .second = {Config::Second::kBlockN, Config::Second::kSplitK}};
}

// The ring, the exchange buffer, the rows that wgmma reads past a short tile, the parts and the
// barriers follow in this order. They do not overlap, all fit, and each has the alignment that it
// needs.
template <class Types, class Config>
void ExpectLayout(const ScheduleSizes& z) {
  using Layout = typename Types::Layout;
  using Block = typename Types::BlockType;
  EXPECT_EQ(Layout::kStageBytes, z.stage_bytes);
  EXPECT_EQ(Layout::kExchange, z.stage_bytes * Config::kStages);
  EXPECT_GE(Layout::kParts, Layout::kExchange + z.kept_bytes);
  EXPECT_EQ(Layout::kBarriers, Layout::kParts + z.reduce_bytes);
  EXPECT_EQ(Layout::kBytes, z.shared_bytes);
  // Own barriers 0..7, then the launch's tag.
  EXPECT_LE(Layout::kBarriers + Block::RingType::kBarrierBytes + 8 * 8 + 4, Layout::kBytes - 1024);
  EXPECT_EQ(Layout::kStageBytes % 1024, 0);
  EXPECT_EQ(Layout::kExchange % 1024, 0);
  EXPECT_EQ(Layout::kParts % 16, 0);
  EXPECT_EQ(Layout::kBarriers % 8, 0);
  // The last subtile of the last stage, or of the exchange buffer, read as 64 rows a warpgroup.
  const int last_rows = Layout::kExchange + static_cast<int>(z.kept_bytes);
  const int behind = (64 * Config::kWarpgroupsM - Config::kBlockM) * 128;
  if (Config::kSwapped) return;  // reads no row that is not there
  EXPECT_LE(last_rows + behind, Layout::kBytes - 1024);
}

// Elements of one byte.
template <int kBlockM, int kBlockK, int kStages, int kCluster, int kWarpgroupsN, int kN, int kK,
          int kBlockN1, int kSplit1, int kL, int kBlockN2, int kSplit2>
using ByteConfig =
    TestConfig<kBlockM, kBlockK, kStages, kCluster, 1, kWarpgroupsN, false, 1, kN, kK, kBlockN1,
               kSplit1, kL, kBlockN2, kSplit2, 1, 1, false, ElementSizes<unsigned char>>;

template <class Config>
class Geometry : public ::testing::Test {};
using GeometryConfigs =
    Forms<TestConfig<128, 128, 3, 4, 2, 1, false, 2, 3072, 1024, 32, 1, 1024, 40, 4>,
          TestConfig<128, 64, 4, 8, 2, 1, false, 1, 8192, 2048, 64, 8, 2048, 128, 2>,
          TestConfig<64, 64, 6, 2, 1, 2, true, 2, 1024, 512, 128, 2, 512, 128, 1>,
          TestConfig<16, 128, 16, 2, 1, 1, false, 1, 2048, 2048, 24, 2, 768, 32, 2>,
          TestConfig<8, 64, 32, 1, 1, 1, false, 1, 1024, 2048, 8, 1, 64, 8, 1>,
          TestConfig<72, 64, 2, 16, 2, 1, false, 2, 4096, 1024, 96, 16, 1000, 120, 4>,
          ByteConfig<16, 256, 6, 4, 1, 3072, 1024, 32, 1, 1024, 40, 4>,
          ByteConfig<64, 128, 8, 2, 2, 2048, 1000, 128, 2, 768, 64, 2>>;
TYPED_TEST_SUITE(Geometry, GeometryConfigs);

// The device library's sizes and the host's, of elements of one and of two bytes.
TYPED_TEST(Geometry, ElementsAgreeWithTheHostsTable) {
  using Element = typename TypeParam::Element;
  const ElementRow row = ElementOf(ProblemOf<TypeParam>(1).element());
  EXPECT_EQ(Element::kBytes, row.bytes);
  EXPECT_EQ(Element::kWgmmaK, row.wgmma_k);
  EXPECT_EQ(Element::kSwizzleSpan, row.swizzle_span);
  EXPECT_EQ(Element::kVector, row.vector);
  EXPECT_EQ(TypeParam::First::kSubtiles * row.swizzle_span, TypeParam::kBlockK);
  EXPECT_EQ(TypeParam::First::kSteps * row.wgmma_k, TypeParam::kBlockK);
}

// Elements of one byte at twice the K of a stage: the same bytes, boxes and wgmmas.
TEST(ByteGeometry, TakesTwiceTheKInTheSameBytes) {
  using Bytes = ByteConfig<64, 128, 4, 2, 1, 2048, 4096, 64, 2, 1024, 64, 1>;
  using Words = TestConfig<64, 64, 4, 2, 1, 1, false, 1, 2048, 2048, 64, 2, 1024, 64, 1>;
  EXPECT_EQ(Bytes::First::kRowsBytes, Words::First::kRowsBytes);
  EXPECT_EQ(Bytes::First::kWeightBytes, Words::First::kWeightBytes);
  EXPECT_EQ(Bytes::First::kSubtiles, Words::First::kSubtiles);
  EXPECT_EQ(Bytes::First::kSteps, Words::First::kSteps);
  EXPECT_EQ(Bytes::First::kKBlocks, Words::First::kKBlocks);
  EXPECT_EQ((DsmShuffle<Bytes, 2048>::kBytes * 2), (DsmShuffle<Words, 2048>::kBytes));
}

TYPED_TEST(Geometry, ProductAgreesWithThePlan) {
  ExpectLayout<ProductTypes<TypeParam>, TypeParam>(
      SizesOf(ProblemOf<TypeParam>(1), ScheduleOf<TypeParam>(Dataflow::kProduct)));
}

// Results that become codes are staged after the parts.
template <class Config, class Rule>
void ExpectStagedResults(const QuantizeRule& rule) {
  using P = typename Config::First;
  using Layout = typename ProductTypes<Config, Rule>::Layout;
  ProductSequence p = ProblemOf<Config>(1);
  SetCodes(&p, DType::kF32, ScaleKind::kVector, ScaleKind::kVector);
  SetQuantized(&p, rule);
  const ScheduleSizes z = SizesOf(p, ScheduleOf<Config>(Dataflow::kProduct));
  EXPECT_EQ(Layout::kBytes, z.shared_bytes);
  EXPECT_EQ(Layout::kBarriers,
            Layout::kParts + z.reduce_bytes + P::kOwnerRows * StagedResults<P>::kStride);
  EXPECT_EQ((Layout::kParts + P::kPartBytes) % 16, 0);
}

TEST(StagedGeometry, AgreesWithThePlan) {
  ExpectStagedResults<ByteConfig<64, 128, 3, 1, 2, 2048, 1024, 256, 1, 768, 64, 2>,
                      GroupScales<false>>({128, 1, 0, false});
  ExpectStagedResults<ByteConfig<24, 128, 3, 4, 1, 2048, 1024, 40, 4, 768, 64, 2>, GivenScale>({});
  ExpectStagedResults<TestConfig<72, 128, 3, 4, 1, 2, false, 2, 3072, 1024, 128, 4, 1024, 128, 4, 1,
                                 1, true, ElementSizes<unsigned char>>,
                      GroupScales<true>>({128, 1, 0, true});
}

TEST(SwappedGeometry, AgreesWithThePlan) {
  using Config =
      TestConfig<72, 64, 4, 4, 1, 2, false, 2, 3072, 1024, 128, 4, 1024, 128, 4, 1, 1, true>;
  ExpectLayout<ProductTypes<Config>, Config>(
      SizesOf(ProblemOf<Config>(1), ScheduleOf<Config>(Dataflow::kProduct)));
}

TYPED_TEST(Geometry, GridExchangeAgreesWithThePlan) {
  const ScheduleSizes z =
      SizesOf(ProblemOf<TypeParam>(2), ScheduleOf<TypeParam>(Dataflow::kGridExchange));
  ExpectLayout<GridExchangeTypes<TypeParam>, TypeParam>(z);
  // The plan counts the header (epoch, greetings) with the flags; both fit what workspaces begin
  // with.
  constexpr int kWords = kFlags + TypeParam::First::kColumnTiles * TypeParam::First::kSplitK;
  EXPECT_EQ(z.flag_bytes, 4 * kWords);
  EXPECT_LE(z.flag_bytes, static_cast<int64_t>(kWorkspaceFlagBytes));
}

TYPED_TEST(Geometry, ClusterExchangeAgreesWithThePlan) {
  const ScheduleSizes z =
      SizesOf(ProblemOf<TypeParam>(2), ScheduleOf<TypeParam>(Dataflow::kClusterExchange));
  using Types = ClusterExchangeTypes<TypeParam>;
  EXPECT_EQ(Types::kExchangeBytes, z.kept_bytes);
  // This dataflow does not split; its layout has no parts.
  ScheduleSizes unsplit = z;
  unsplit.shared_bytes -= z.reduce_bytes;
  unsplit.reduce_bytes = 0;
  ExpectLayout<Types, TypeParam>(unsplit);
}

// A pair's parts of 16 rows meet in 8 of each; the plan says one K range, the device two ranks.
TEST(SpatialGeometry, AgreesWithThePlan) {
  using Config = TestConfig<16, 64, 4, 8, 1, 1, false, 1, 1000, 512, 256, 2, 250, 32, 1>;
  ProductSequence p = ProblemOf<Config>(2);
  SetPair(&p, true);
  Schedule s = ScheduleOf<Config>(Dataflow::kSpatialGate);
  s.first.split_k = 1;
  const ScheduleSizes z = SizesOf(p, s);
  EXPECT_EQ(Config::First::kPartBytes, z.reduce_bytes);
  ExpectLayout<SpatialGateTypes<Config>, Config>(z);
}

// The base's dataflow (b) with a slab for `kSlab_` columns of C.
template <class Base, int kSlab_>
struct SlabConfig : Base {
  static constexpr int kSlabColumns = kSlab_;
};
using SlabBase = TestConfig<16, 64, 4, 8, 1, 1, false, 1, 1000, 512, 128, 1, 250, 32, 1>;

TEST(SlabGeometry, AgreesWithThePlan) {
  using Config = SlabConfig<SlabBase, 448>;
  using Types = ClusterSlabTypes<Config>;
  Schedule s = ScheduleOf<Config>(Dataflow::kClusterSlab);
  s.cut = Config::kSlabColumns;
  const ScheduleSizes z = SizesOf(ProblemOf<Config>(2), s);
  EXPECT_EQ(Types::kExchangeBytes, z.kept_bytes);
  ExpectLayout<Types, Config>(z);
}

// Each rank that has a column past the slab's end reports it: the last rank of eight ends at 1000.
TEST(SlabGeometry, CountsTheRanksThatHaveColumnsBehindTheSlab) {
  const auto tellers = [](int slab) {
    int count = 0;
    for (int rank = 0; rank < 8; ++rank) {
      const int column = rank * SlabBase::First::kBlockN;
      count += column < SlabBase::First::kN && column + SlabBase::First::kBlockN > slab ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ((ClusterSlabTypes<SlabConfig<SlabBase, 64>>::kTellers), tellers(64));
  EXPECT_EQ((ClusterSlabTypes<SlabConfig<SlabBase, 448>>::kTellers), tellers(448));
  EXPECT_EQ((ClusterSlabTypes<SlabConfig<SlabBase, 512>>::kTellers), tellers(512));
  EXPECT_EQ((ClusterSlabTypes<SlabConfig<SlabBase, 960>>::kTellers), tellers(960));
}

TYPED_TEST(Geometry, RanksShareTheKBlocksWithoutGapOrOverlap) {
  using P = typename TypeParam::First;
  EXPECT_EQ(P::first_block(0), 0);
  EXPECT_EQ(P::first_block(P::kSplitK), P::kKBlocks);
  for (int rank = 0; rank < P::kSplitK; ++rank)
    EXPECT_LT(P::first_block(rank), P::first_block(rank + 1)) << "rank " << rank << " has no block";
}

// Every block of the grid walks; each tile is visited once by each rank of one group.
template <class P>
void ExpectWalkCoversTiles(int cluster, int grid, int row_tiles) {
  std::multiset<std::array<int, 3>> visits;
  gridDim.x = static_cast<unsigned>(grid);
  for (int block = 0; block < grid; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    const TileWalk<P> walk(block % cluster, row_tiles);
    EXPECT_LE(walk.first + P::kSplitK, cluster) << "a group leaves its cluster";
    for (int tile = walk.group; tile < walk.tiles(); tile += walk.groups)
      visits.insert({walk.column_tile(tile), walk.row_tile(tile), walk.rank});
  }
  EXPECT_EQ(visits.size(), static_cast<size_t>(P::kColumnTiles * row_tiles * P::kSplitK));
  const std::set<std::array<int, 3>> unique(visits.begin(), visits.end());
  EXPECT_EQ(unique.size(), visits.size());
  for (const auto& [column, row, rank] : unique) {
    EXPECT_TRUE(column >= 0 && column < P::kColumnTiles && row >= 0 && row < row_tiles);
    EXPECT_TRUE(rank >= 0 && rank < P::kSplitK);
  }
}

// Every block of a product's grid walks its cluster's units: each tile over the rows that exist is
// visited once by each rank that shares its K, pairs of tiles are neighbours, and the blocks of a
// cluster take equally many.
template <class Config>
void ExpectProductWalkCoversTiles(int clusters, int m) {
  using P = typename Config::First;
  const int row_tiles = ceil_div(m, Config::kBlockM);
  std::multiset<std::array<int, 3>> visits;
  gridDim.x = static_cast<unsigned>(clusters * Config::kCluster);
  for (int block = 0; block < clusters * Config::kCluster; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    using Walk = ProductUnits<Config>;
    static_assert(Walk::kBand == kBandUnits && Walk::kDealtBand == kDealtBandUnits &&
                      Walk::kKeptBytes == kDealtWeightBytes,
                  "the cost model knows the bands");
    const Walk walk(block % Config::kCluster, m), leader(0, m);
    int taken = 0;
    for (int unit = walk.first; unit < walk.units(); unit += walk.step, ++taken) {
      const int row = walk.own_row(unit) / Config::kBlockM;
      const int column = walk.column(unit) / P::kBlockN;
      EXPECT_EQ(row, leader.own_row(unit) / Config::kBlockM + (P::kWeightsShare - 1) * walk.pair);
      EXPECT_EQ(column, leader.column(unit) / P::kBlockN + (P::kRowsShare - 1) * walk.pair);
      if (row < row_tiles && column < P::kColumnTiles) visits.insert({column, row, walk.k_rank});
    }
    EXPECT_EQ(taken, walk.own());
  }
  EXPECT_EQ(visits.size(), static_cast<size_t>(P::kColumnTiles * row_tiles * P::kSplitK));
  const std::set<std::array<int, 3>> unique(visits.begin(), visits.end());
  EXPECT_EQ(unique.size(), visits.size());
}

template <class Config>
class ProductWalk : public ::testing::Test {};
using WalkConfigs =
    Forms<TestConfig<64, 64, 4, 1, 1, 1, false, 1, 200, 128, 24, 1, 40, 40, 1>,
          TestConfig<64, 64, 4, 1, 1, 1, false, 1, 2000, 8192, 40, 1, 40, 40, 1>,
          TestConfig<16, 64, 4, 4, 1, 1, false, 1, 200, 512, 24, 4, 40, 40, 1>,
          TestConfig<16, 64, 4, 2, 1, 1, false, 1, 200, 128, 48, 1, 40, 40, 1, 2, 1>,
          TestConfig<16, 64, 4, 2, 1, 1, false, 1, 200, 128, 24, 1, 40, 40, 1, 1, 2>,
          TestConfig<16, 64, 4, 4, 1, 1, false, 1, 200, 128, 48, 2, 40, 40, 1, 2, 1>,
          TestConfig<16, 64, 4, 8, 1, 1, false, 1, 200, 512, 24, 4, 40, 40, 1, 1, 2>>;
TYPED_TEST_SUITE(ProductWalk, WalkConfigs);

TYPED_TEST(ProductWalk, VisitsEveryTileOnce) {
  for (int clusters : {1, 3, 66})
    for (int m : {0, 1, 16, 17, 255, 256, 257, 1000})
      ExpectProductWalkCoversTiles<TypeParam>(clusters, m);
}

// Whoever says how many registers are left must mean what the kernel holds.
TEST(HeldMatrix, HasTheWordsThatTheHostCounts) {
  for (int groups = 1; groups <= 32; ++groups)
    EXPECT_EQ(held_matrix_words(groups), HeldResidualWords(groups)) << groups;
}

// A matrix that lies where a result goes would be added twice to the rows of two tiles.
struct AnyMatrix {
  static constexpr bool kPresent = true;
};
TEST(LiesApart, KnowsAMatrixInPlace) {
  char buffers[2];
  Arguments args = {};
  args.residual = &buffers[0], args.out = &buffers[1];
  EXPECT_TRUE(lies_apart<AnyMatrix>(args));
  args.out = &buffers[0];
  EXPECT_FALSE(lies_apart<AnyMatrix>(args));
  EXPECT_TRUE(lies_apart<NoMatrix>(args));
}

// The last tile overlaps its neighbour instead of rows that do not exist. A pair's tile past it
// does so too.
TYPED_TEST(ProductWalk, EndsWithTheLastRow) {
  constexpr int kRows = TypeParam::kBlockM;
  gridDim.x = static_cast<unsigned>(TypeParam::kCluster);
  for (int m : {1, kRows, kRows + 1, 3 * kRows - 7, 3 * kRows - 8, 3 * kRows - 9}) {
    for (unsigned block = 0; block < gridDim.x; ++block) {
      blockIdx.x = block;
      const int rank = static_cast<int>(block);
      const ProductUnits<TypeParam> walk(rank, m);
      const ProductUnits<TypeParam> in_place(rank, m, 0, false);
      for (int unit = walk.first; unit < walk.units(); unit += walk.step) {
        const int row = walk.row(unit), tile = in_place.row(unit);
        EXPECT_EQ(tile % kRows, 0);
        if (tile + kRows <= m) {
          EXPECT_EQ(row, tile) << m;
        } else {
          EXPECT_EQ(row, m <= kRows ? 0 : (m - kRows + 7) / 8 * 8) << m;
          EXPECT_LE(row, tile) << m;
        }
      }
    }
  }
}

// Row tiles that `blocks` take first, of `row_tiles` and of columns of `Config`, whose blocks have
// no cluster.
template <class Config>
std::vector<int> FirstRowTiles(int blocks, int row_tiles = 16) {
  std::vector<int> tiles;
  gridDim.x = static_cast<unsigned>(blocks);
  for (int block = 0; block < blocks; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    const ProductUnits<Config> walk(0, row_tiles * Config::kBlockM);
    tiles.push_back(walk.row(walk.first) / Config::kBlockM);
  }
  return tiles;
}

// Four row tiles in turn, where L2 keeps the weights or all units run at once; else a whole band.
TEST(ProductWalkOfBlocks, DealsRowTilesOut) {
  using Small = TestConfig<64, 64, 4, 1, 1, 1, false, 1, 200, 128, 24, 1, 40, 40, 1>;
  using Large = TestConfig<64, 64, 4, 1, 1, 1, false, 1, 2000, 8192, 40, 1, 40, 40, 1>;
  constexpr int kLargeUnits = 16 * Large::First::kColumnTiles;
  for (const auto& [tiles, in_turn] :
       {std::pair(FirstRowTiles<Small>(132), 4), std::pair(FirstRowTiles<Large>(kLargeUnits), 4),
        std::pair(FirstRowTiles<Large>(132), 16)}) {
    for (int block = 0; block < 32; ++block)
      EXPECT_EQ(tiles[static_cast<size_t>(block)], block % in_turn) << block;
  }
}

// Bands of about four row tiles, whose heights differ by one at most.
TEST(ProductWalkOfBlocks, DealsBandsOfAboutEqualHeight) {
  using Large = TestConfig<64, 64, 4, 1, 1, 1, false, 1, 2000, 8192, 40, 1, 40, 40, 1>;
  constexpr int kColumns = Large::First::kColumnTiles;
  const std::pair<int, std::vector<int>> heights[] = {
      {1, {1}},    {3, {3}},    {5, {5}},        {6, {6}},       {7, {4, 3}},
      {8, {4, 4}}, {9, {5, 4}}, {11, {4, 4, 3}}, {13, {5, 4, 4}}};
  for (const auto& [row_tiles, bands] : heights) {
    const std::vector<int> tiles = FirstRowTiles<Large>(row_tiles * kColumns, row_tiles);
    size_t at = 0;
    int first = 0;
    for (const int height : bands) {
      for (int unit = 0; unit < height * kColumns; ++unit)
        ASSERT_EQ(tiles[at++], first + unit % height) << row_tiles << " " << unit;
      first += height;
    }
    EXPECT_EQ(at, tiles.size());
  }
}

TYPED_TEST(Geometry, GridWalksEveryTileOnce) {
  constexpr int kCluster = TypeParam::kCluster;
  for (int clusters : {1, 3, 7}) {
    for (int row_tiles : {0, 1, 2, 5}) {
      ExpectWalkCoversTiles<typename TypeParam::First>(kCluster, clusters * kCluster, row_tiles);
      ExpectWalkCoversTiles<typename TypeParam::Second>(kCluster, clusters * kCluster, row_tiles);
    }
  }
}

}  // namespace
}  // namespace sinter
