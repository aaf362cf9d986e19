#include "src/product/schedule.h"

#include "tests/support/damage.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

TEST(Schedule, RoundTripsThroughCanonicalBytes) {
  const Schedule s = SampleGridExchange();
  const auto back = Got(Schedule::FromCanonical(s.Canonical()));
  EXPECT_TRUE(back == s);
  EXPECT_EQ(s.ToString(), "grid-exchange bm128 wg2x1 bk128 st3 cl4 grid120 first 32/1 second 40/4");
}

TEST(Schedule, KeepsWhatPairsShare) {
  Schedule s = SampleProduct(FirstOf(SampleGated()), 48, 1);
  s.cluster = 2;
  const std::string alone = s.Canonical();
  s.share = Share::kWeights;
  EXPECT_NE(s.Canonical(), alone);
  EXPECT_TRUE(*Schedule::FromCanonical(s.Canonical()) == s);
  EXPECT_EQ(s.ToString(), "product bm128 wg2x1 bk128 st3 cl2 grid64 first 48/1 share-weights");
}

TEST(Schedule, KeepsSwappedOperands) {
  Schedule s = SampleSwapped();
  EXPECT_TRUE(*Schedule::FromCanonical(s.Canonical()) == s);
  EXPECT_EQ(s.ToString(), "product bm40 wg1x2 bk64 st4 cl2 swapped grid30 first 128/2");
  std::string swapped = s.Canonical();
  s.swapped = false;
  EXPECT_NE(s.Canonical(), swapped);
}

// Bytes of cluster exchanges are what they were before there were forms of them.
TEST(Schedule, FormsOfClusterExchangesHaveAVersionAndANameOfTheirOwn) {
  Schedule s = SampleRanges();
  s.dataflow = Dataflow::kClusterExchange, s.cut = 0;
  const std::string plain = s.Canonical();
  const std::tuple<Dataflow, int, int, const char*> forms[] = {
      {Dataflow::kClusterExchange, 0, 2, ""},
      {Dataflow::kClusterRanges, 6, 3, " ranges6"},
      {Dataflow::kClusterSlab, 128, 5, " slab128"},
      {Dataflow::kSpatialGate, 0, 7, ""}};
  for (const auto& [dataflow, cut, version, token] : forms) {
    s.dataflow = dataflow, s.cut = cut;
    const std::string bytes = s.Canonical();
    EXPECT_EQ(bytes[0], version);
    EXPECT_EQ(bytes[1], 3);
    EXPECT_EQ(bytes.substr(1, plain.size() - 1), plain.substr(1));
    EXPECT_EQ(bytes.size(), plain.size() + (cut == 0 ? 0 : 4));
    EXPECT_TRUE(*Schedule::FromCanonical(bytes) == s);
    EXPECT_EQ(s.ToString(), absl::StrCat(NameOf(dataflow), " bm64 wg1x1 bk64 st3 cl4", token,
                                         " grid48 first 32/1 second 256/1"));
  }
}

TEST(Schedule, RefusesBytesOfNoDataflow) {
  std::string bytes = SampleGridExchange().Canonical();
  bytes[0] = 7;  // of spatial gates, whose byte is 3
  EXPECT_TRUE(Says(Schedule::FromCanonical(bytes), "no dataflow 2 of version 7"));
  for (const auto& [version, dataflow] : {std::pair(2, 99), std::pair(2, 4), std::pair(4, 4)}) {
    bytes[0] = static_cast<char>(version), bytes[1] = static_cast<char>(dataflow);  // 4: task lists
    EXPECT_FALSE(Schedule::FromCanonical(bytes).ok());
  }
}

TEST(Schedule, KeepsTheRanksThatResultsArePushedTo) {
  for (const bool swapped : {false, true}) {
    Schedule s{.swapped = swapped};
    const std::string without = s.Canonical();
    s.pushes = 2;
    std::string bytes = s.Canonical();
    EXPECT_EQ(bytes[0], swapped ? 9 : 8);
    EXPECT_EQ(bytes.size(), without.size() + 1);
    EXPECT_TRUE(*Schedule::FromCanonical(bytes) == s);
    EXPECT_THAT(s.ToString(), HasSubstr(" pushes2"));
    bytes.back() = 0;  // written twice
    EXPECT_FALSE(Schedule::FromCanonical(bytes).ok());
    bytes.pop_back();
    EXPECT_FALSE(Schedule::FromCanonical(bytes).ok());
  }
}

TEST(Schedule, KeepsTheColumnsThatArePushed) {
  for (const bool swapped : {false, true}) {
    Schedule s{.swapped = swapped};
    const std::string without = s.Canonical();
    s.pushes = 2;
    s.pushed_columns = 4096;
    std::string bytes = s.Canonical();
    EXPECT_EQ(bytes[0], swapped ? 11 : 10);
    EXPECT_EQ(bytes.size(), without.size() + 5);
    EXPECT_TRUE(*Schedule::FromCanonical(bytes) == s);
    EXPECT_THAT(s.ToString(), HasSubstr(" pushes2 columns4096"));
    bytes.replace(bytes.size() - 4, 4, 4, '\0');  // written twice
    EXPECT_FALSE(Schedule::FromCanonical(bytes).ok());
  }
}

// Two turns of 66 pairs of blocks over 4 x 32 pairs of tiles: the last begins in column tile 16.
TEST(Schedule, EarlyColumnsAreOfNoTileOfTheLastTurn) {
  ProductSequence p;
  p.products.resize(1);
  p.products[0].n = 8192;
  p.products[0].k = 4096;
  p.m = 1024;
  Schedule s = ReadSchedule("product cl2 grid132 first 256/1 share-weights");
  ASSERT_EQ(TurnsOf(p, s), 2);
  EXPECT_EQ(EarlyColumns(p, s), 4096);
  p.m = 4096;  // 8 turns of 16 x 32: the last begins at 462 of 512
  EXPECT_EQ(EarlyColumns(p, s), 28 * 256);
  p.m = 8192;  // two bands
  EXPECT_EQ(EarlyColumns(p, s), 29 * 256);
  p.m = 256;
  EXPECT_EQ(EarlyColumns(p, s), 0);
  // Blocks without a cluster whose weights stay in L2: nine row tiles are bands of 5 and 4, and the
  // second turn begins 52 units after the second band, in its column 13.
  p.products[0].n = p.products[0].k = 2048;
  p.m = 9 * 128;
  s = Schedule();
  s = With(s, "bm128 grid132 first 128/1");
  ASSERT_EQ(TurnsOf(p, s), 2);
  EXPECT_EQ(EarlyColumns(p, s), 13 * 128);
}

TEST(Schedule, RefusesDamagedCanonicalBytes) {
  const std::string bytes = SampleGridExchange().Canonical();
  ExpectTruncationsRefused(bytes, Schedule::FromCanonical);
  EXPECT_FALSE(Schedule::FromCanonical(bytes + "x").ok());
  std::string version = bytes, dataflow = bytes, share = bytes;
  version[0] = 9;
  dataflow[1] = 5;
  share[2] = 3;
  EXPECT_FALSE(Schedule::FromCanonical(share).ok());
  EXPECT_FALSE(Schedule::FromCanonical(version).ok());
  EXPECT_FALSE(Schedule::FromCanonical(dataflow).ok());
}

TEST(SizesOf, SwappedOperandsHaveRowsInPairs) {
  const ScheduleSizes z = SizesOf(SampleSwappedProblem(), SampleSwapped());
  EXPECT_EQ(z.stage_bytes, (40 + 2 * 128) * 64 * 2);
  EXPECT_EQ(z.accumulators, 2 * 40 / 2);            // gate and up, 64 columns a warpgroup
  EXPECT_EQ(z.reduce_bytes, 2 * 20 * 2 * 128 * 4);  // two parts of 20 rows
  EXPECT_EQ(z.shared_bytes, 4 * z.stage_bytes + z.reduce_bytes + 2048);  // no rows past the end
  EXPECT_EQ(z.units, 3 * 5);
  Schedule s = SampleSwapped();
  s.cluster = s.first.split_k = 4;  // of 10 rows
  EXPECT_EQ(SizesOf(SampleSwappedProblem(), s).reduce_bytes, 4 * 10 * 2 * 128 * 4);
  s.cluster = s.first.split_k = 8;  // of 5, so 6
  EXPECT_EQ(SizesOf(SampleSwappedProblem(), s).reduce_bytes, 8 * 6 * 2 * 128 * 4);
}

TEST(SizesOf, GridExchangeHoldsAThenTheWiderWeights) {
  const ScheduleSizes z = SizesOf(SampleGated(), SampleGridExchange());
  EXPECT_EQ(z.stage_bytes, 128 * 128 * 2 + 2 * 32 * 128 * 2);  // gate and up: wider than 40
  EXPECT_EQ(z.reduce_bytes, 4 * 4 * 32 * 40);                  // four parts of 32 rows
  EXPECT_EQ(z.kept_bytes, 0);
  EXPECT_EQ(z.accumulators, 32);
  EXPECT_EQ(z.shared_bytes, 1024 + 3 * z.stage_bytes + z.reduce_bytes + 1024);
  EXPECT_EQ(z.first_tiles, 96);
  EXPECT_EQ(z.second_tiles, 26);
  EXPECT_EQ(z.flag_bytes, 4 * (kFlagHeaderWords + 96));
  EXPECT_EQ(z.c_bytes, 128 * 3072 * 2);
}

TEST(SizesOf, SecondProductDecidesTheStageWhenItsTileIsWider) {
  ProductSequence p = SampleGated();
  SetPair(&p, false);
  EXPECT_EQ(SizesOf(p, SampleGridExchange()).stage_bytes, 128 * 128 * 2 + 40 * 128 * 2);
}

TEST(SizesOf, ClusterExchangeKeepsCInEveryBlockAndLoadsNoSecondA) {
  ProductSequence p = SampleGated();
  SetPair(&p, false);
  SetColumns(&p, 0, 520);
  p[0].k = 416;
  p[1].n = 256;
  Schedule s =
      ReadSchedule("cluster-exchange bm16 wg1x1 bk64 st4 cl8 grid64 first 72/1 second 32/1");
  const ScheduleSizes z = SizesOf(p, s);
  EXPECT_EQ(z.stage_bytes, 16 * 64 * 2 + 72 * 64 * 2);
  EXPECT_EQ(z.kept_bytes, 9 * 16 * 128);
  EXPECT_EQ(z.shared_bytes, 1024 + 4 * z.stage_bytes + z.kept_bytes + 8192 + 1024);
  EXPECT_EQ(z.c_bytes, 0);
  EXPECT_EQ(z.flag_bytes, 0);
  s.second.block_n = 128;  // W2 alone is now the larger stage
  EXPECT_EQ(SizesOf(p, s).stage_bytes, 128 * 64 * 2);
}

TEST(SizesOf, ASlabKeepsItsColumnsAndTheRingTakesTheOtherRowsOfC) {
  ProductSequence p = SampleRangesProblem();  // n 760
  Schedule s = SampleRanges();
  s = With(s, "cluster-slab slab256 first 192");
  const ScheduleSizes z = SizesOf(p, s);
  EXPECT_EQ(z.kept_bytes, 64 * 256 * 2);
  EXPECT_EQ(z.stage_bytes, (64 + 256) * 64 * 2);
  EXPECT_EQ(z.c_bytes, 128 * 760 * 2);
  EXPECT_EQ(z.flag_bytes, 0);
}

TEST(SizesOf, ASpatialGateHasHalfTheWeightsOfAStageAndPartsOfTwoRanks) {
  const ProductSequence p = SampleGated();  // 3072 columns, of which 8 pairs have 384 each
  const ScheduleSizes z =
      SizesOf(p, ReadSchedule("spatial-gate bm16 wg1x2 bk64 cl16 first 384/1 second 64/1"));
  EXPECT_EQ(z.stage_bytes, (16 + 384) * 64 * 2);
  EXPECT_EQ(z.reduce_bytes, 2 * 8 * 384 * 4);
  EXPECT_EQ(z.accumulators, 384 / 2 / 2);
  EXPECT_EQ(z.kept_bytes, 3072 * 16 * 2);
}

TEST(SizesOf, ClustersThatShareARowTileKeepTheirRangeAndLeaveParts) {
  const ScheduleSizes z = SizesOf(SampleRangesProblem(), SampleRanges());
  EXPECT_EQ(z.kept_bytes, 64 * 128 * 2);  // 4 blocks of 32 columns
  EXPECT_EQ(z.stage_bytes, 256 * 64 * 2);
  EXPECT_EQ(z.partial_out_bytes, 48 * 64 * 256 * 4);
  EXPECT_EQ(z.flag_bytes, 4 * (kFlagHeaderWords + 48));
  EXPECT_EQ(z.c_bytes, 0);
}

TEST(SizesOf, UnevenSplitRoundsRowsUp) {
  ProductSequence p = FirstOf(SampleGated());
  Schedule s = SampleProduct(p, 48, 8);
  s.block_m = 24;
  s.warpgroups_m = 1;
  EXPECT_EQ(SizesOf(p, s).reduce_bytes, 8 * 3 * 96 * 4);
  s.block_m = 8;
  s.first.split_k = 16;
  EXPECT_EQ(SizesOf(p, s).reduce_bytes, 16 * 1 * 96 * 4);
}

TEST(SizesOf, SurvivesEmptyFields) {
  const ScheduleSizes z =
      SizesOf(ProductSequence{}, {.block_m = 0, .warpgroups_n = 0, .block_k = 0, .stages = 0});
  EXPECT_EQ(z.row_tiles, 0);
  EXPECT_EQ(z.first_tiles, 0);
}

}  // namespace
}  // namespace sinter
