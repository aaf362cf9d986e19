// FlashFuser's space: its schedules, what a cluster shares, and what each level moves.
#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// GPT-6.7B, whose counts are published, with M = 256: N = 16384, K = L = 4096.
const PaperProblem kGpt{256, 16384, 4096, 4096};

uint64_t Count(const PaperProblem& p, RuleSet rules) {
  return PaperSpace(p, *BuiltinModel("h200"), rules).Count();
}

TEST(PaperSpace, HasTheFortyOneSchedulesOfTableIV) {
  const auto all = AllLoopSchedules();
  int by_spatial[5] = {};
  std::set<std::string> distinct;
  for (const LoopSchedule& s : all) {
    by_spatial[4 - s.temporal]++;
    distinct.insert(s.ToString());
  }
  EXPECT_EQ(by_spatial[1], 24);
  EXPECT_EQ(by_spatial[2], 12);
  EXPECT_EQ(by_spatial[3], 4);
  EXPECT_EQ(by_spatial[4], 1);
  EXPECT_EQ(distinct.size(), 41u);
  EXPECT_EQ(AllClusterShapes().size(), 625u);
  EXPECT_EQ(AllTiles(256).size(), 16u);
}

TEST(PaperSpace, CountsThePublishedSpaceRuleByRule) {
  EXPECT_EQ(Count(kGpt, RuleSet::None()), 27514634240000u);  // paper: 2.75e13
  EXPECT_EQ(Count(kGpt, RuleSet::UpTo(1)), 114159375u);      // paper: 1.14e8
  EXPECT_EQ(Count(kGpt, RuleSet::UpTo(2)), 25571700u);       // paper: 2.47e7
  EXPECT_EQ(Count(kGpt, RuleSet::UpTo(3)), 16216200u);       // paper: 1.44e7
  EXPECT_EQ(Count(kGpt, RuleSet::UpTo(4)), 9979200u);        // paper: 9.62e6
  EXPECT_EQ(Count(kGpt, RuleSet::UpTo(5)), 1544245u);        // paper: 1.15e6
}

TEST(PaperSpace, LeavingAnyRuleOutChangesTheCount) {
  const PaperProblem small{64, 48, 32, 64};
  const uint64_t all = Count(small, RuleSet::All());
  EXPECT_GT(all, 0u);
  for (int rule = 1; rule <= 5; rule++) {
    const uint64_t n = Count(small, RuleSet::All().Without(rule));
    if (rule < 5) {
      EXPECT_GT(n, all) << "rule " << rule;
    }
  }
  // Rule 5 needs tensors that are too large.
  EXPECT_GT(Count(kGpt, RuleSet::All().Without(5)), Count(kGpt, RuleSet::All()));
}

TEST(PaperSpace, FactoredCountsEqualAWalkOverEveryPoint) {
  const PaperProblem small{32, 48, 32, 16};
  for (const RuleSet rules : {RuleSet::None(), RuleSet::UpTo(1), RuleSet::UpTo(2), RuleSet::UpTo(3),
                              RuleSet::UpTo(4), RuleSet::All()}) {
    const PaperSpace space(small, *BuiltinModel("h200"), rules);
    uint64_t walked = 0;
    space.ForEach([&](const PaperPoint& x) {
      walked++;
      EXPECT_TRUE(!rules.Has(2) || Rule2(x.cluster));
      EXPECT_TRUE(!rules.Has(3) || Rule3(x.loops));
      EXPECT_TRUE(!rules.Has(4) || Rule4(x.loops));
    });
    EXPECT_EQ(walked, space.Count());
  }
}

TEST(PaperRules, SpeakOfWhatTheirTextSays) {
  EXPECT_TRUE(Rule1(768, 48));
  EXPECT_FALSE(Rule1(768, 80)) << "does not divide";
  EXPECT_FALSE(Rule1(40, 8)) << "half an MMA tile";
  EXPECT_TRUE(Rule2({2, 4, 2, 8}));
  EXPECT_FALSE(Rule2({2, 4, 4, 4})) << "32 blocks";
  EXPECT_FALSE(Rule2({4, 1, 1, 8})) << "32 blocks in the second product";
  int rule3 = 0, rule34 = 0;
  for (const LoopSchedule& s : AllLoopSchedules()) {
    rule3 += Rule3(s);
    rule34 += Rule3(s) && Rule4(s);
  }
  EXPECT_EQ(rule3, 26);
  EXPECT_EQ(rule34, 16);
}

PaperPoint PointOf(const std::string& loops, ClusterShape cluster, BlockTile tile) {
  const auto all = AllLoopSchedules();
  const auto it = std::find_if(all.begin(), all.end(),
                               [&](const LoopSchedule& s) { return s.ToString() == loops; });
  EXPECT_NE(it, all.end()) << loops;
  return {*it, cluster, tile};
}

TEST(PaperRules, CapacityFollowsTheLoopOrder) {
  const int64_t shared = 232448;
  const BlockTile tile{128, 128, 64, 128};
  // Row slab of C, 128 x 16384 x 2 = 4 MB, in 16 blocks of 227 KB: does not fit; half the rows do.
  EXPECT_FALSE(Rule5(kGpt, PointOf("spatial M, LNK", {1, 16, 1, 16}, tile), shared));
  EXPECT_TRUE(Rule5(kGpt, PointOf("spatial M, LNK", {1, 16, 1, 16}, {64, 128, 64, 128}), shared));
  // Partial E, 128 x 4096 x 4 = 2 MB: fits 16 blocks, not 8.
  EXPECT_TRUE(Rule5(kGpt, PointOf("spatial M, NLK", {1, 16, 1, 16}, tile), shared));
  EXPECT_FALSE(Rule5(kGpt, PointOf("spatial M, NLK", {1, 8, 1, 8}, tile), shared));
  // N spread over clusters: a cluster keeps its own tile of C only.
  EXPECT_TRUE(Rule5(kGpt, PointOf("spatial N, MLK", {1, 1, 1, 1}, tile), shared));
  EXPECT_FALSE(Rule5(kGpt, PointOf("spatial N, MLK", {1, 1, 1, 1}, {256, 512, 256, 128}), shared));
}

TEST(DsmComm, DerivesShuffleAndReduceOfThePapersExamples) {
  const ClusterShape a{2, 4, 2, 4}, b{2, 4, 2, 8};
  EXPECT_EQ(a.Blocks(), 16);
  EXPECT_EQ(a.Shuffle(), 2);
  EXPECT_EQ(a.Reduce(), 2);
  EXPECT_EQ(b.Blocks(), 16);
  EXPECT_EQ(b.Shuffle(), 4);
  EXPECT_EQ(b.Reduce(), 1);
}

TEST(DsmComm, BothProductsSeeTheSameBlocks) {
  int consistent = 0;
  for (const ClusterShape& c : AllClusterShapes()) {
    if (!c.Consistent()) continue;
    consistent++;
    EXPECT_EQ(c.m * c.n * c.k, c.m * c.l * c.Reduce());
    EXPECT_EQ(c.Shuffle() * c.Reduce(), c.n);
    EXPECT_EQ(c.Shuffle() * c.k, c.l);
  }
  EXPECT_GT(consistent, 100);
  EXPECT_FALSE((ClusterShape{1, 2, 4, 2}.Consistent())) << "l is not a multiple of k";
  EXPECT_FALSE((ClusterShape{1, 2, 1, 4}.Consistent())) << "more columns of E than blocks";
}

TEST(DsmComm, NoPartnerMovesNoByte) {
  const BlockTile tile{128, 128, 64, 128};
  EXPECT_EQ(AllExchangeBytes({1, 4, 1, 4}, tile), 0);
  EXPECT_EQ(ShuffleRingBytes({1, 4, 2, 2}, tile), 0);
  EXPECT_EQ(ReduceScatterBytes({1, 4, 1, 4}, tile), 0);
}

TEST(DsmComm, CountsEveryByteThatLeavesABlock) {
  const BlockTile tile{128, 128, 64, 64};
  EXPECT_EQ(AllExchangeBytes({1, 1, 2, 2}, tile), 2 * 128 * 128 * 4);
  EXPECT_EQ(ShuffleRingBytes({1, 4, 1, 4}, tile), 4 * 3 * 128 * 128 * 2);
  EXPECT_EQ(ReduceScatterBytes({1, 4, 1, 1}, tile), 3 * 128 * 64 * 4);
}

constexpr uint8_t kM = 1, kN = 2, kK = 4, kL = 8;

LoopSchedule Loops(const std::string& text) {
  for (const LoopSchedule& s : AllLoopSchedules()) {
    if (s.ToString() == text) return s;
  }
  ADD_FAILURE() << text;
  return {};
}

double Of(const LevelBytes& bytes, MemoryLevel level) { return bytes[static_cast<size_t>(level)]; }

TEST(DataflowAnalyzer, InnerLoopsThatTouchATensorMakeOuterLoopsReadItAgain) {
  const PaperProblem p{64, 64, 64, 64};
  const PaperPoint x{Loops("spatial L, MNK"), {}, {16, 16, 16, 16}};
  const double tile = 16 * 16 * 2;
  // A[m,k] under M, N, K: K inside touches it, so N outside reads it four times.
  EXPECT_EQ(GlobalBytes(p, x, kM | kK, kM | kN | kK, tile), 4 * 4 * 4 * tile);
  // B[k,n]: M outermost repeats it.
  EXPECT_EQ(GlobalBytes(p, x, kK | kN, kM | kN | kK, tile), 4 * 4 * 4 * tile);
  // With K outermost and N innermost, A's tile stays while N runs.
  const PaperPoint reuse{Loops("spatial L, MKN"), {}, {16, 16, 16, 16}};
  EXPECT_EQ(GlobalBytes(p, reuse, kM | kK, kM | kN | kK, tile), 4 * 4 * tile);
}

TEST(DataflowAnalyzer, BlocksOfAClusterShareTilesThatTheyDoNotIndex) {
  const PaperProblem p{64, 256, 64, 64};
  const PaperPoint one{Loops("spatial N, MLK"), {1, 1, 1, 1}, {64, 64, 64, 64}};
  const PaperPoint four{Loops("spatial N, MLK"), {1, 4, 1, 4}, {64, 64, 64, 64}};
  const double a_tile = 64 * 64 * 2;
  EXPECT_EQ(GlobalBytes(p, one, kM | kK, kM | kN | kK, a_tile), 4 * a_tile) << "four clusters";
  EXPECT_EQ(GlobalBytes(p, four, kM | kK, kM | kN | kK, a_tile), a_tile) << "one cluster";
  const double b_tile = 64 * 64 * 2;
  EXPECT_EQ(GlobalBytes(p, four, kK | kN, kM | kN | kK, b_tile), 4 * b_tile);
}

TEST(DataflowAnalyzer, EverythingInOneClusterMovesEachTensorOnce) {
  const PaperProblem p{64, 128, 64, 128};
  const PaperPoint x{Loops("spatial M, LNK"), {1, 2, 1, 2}, {64, 64, 64, 64}};
  const DataflowReport r = AnalyzeDataflow(p, x, *BuiltinModel("h200"));
  EXPECT_EQ(r.clusters, 1);
  EXPECT_EQ(Of(r.volume, MemoryLevel::kGlobal), 2.0 * (64 * 64 + 64 * 128 + 128 * 128 + 64 * 128));
  EXPECT_EQ(r.kept_bytes, 64 * 128 * 2);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kRegister), 64 * 128 * 2) << "small enough for registers";
  // shuffle 2: each of two blocks receives the other's 64 x 64 slice.
  EXPECT_EQ(Of(r.volume, MemoryLevel::kDsm), 2 * 64 * 64 * 2);
}

TEST(DataflowAnalyzer, SpillsTheKeptTensorLevelByLevel) {
  const PaperProblem p{128, 16384, 512, 4096};
  const DeviceModel model = *BuiltinModel("h200");
  const PaperPoint x{Loops("spatial M, LNK"), {1, 4, 1, 4}, {128, 128, 64, 128}};
  const DataflowReport r = AnalyzeDataflow(p, x, model);
  EXPECT_EQ(r.kept_bytes, 128 * 16384 * 2);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kRegister), 131072);
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kShared), static_cast<double>(model.shared_bytes_per_block));
  EXPECT_EQ(Of(r.mapping, MemoryLevel::kDsm),
            3.0 * static_cast<double>(model.shared_bytes_per_block));
  EXPECT_GT(Of(r.mapping, MemoryLevel::kL2), 0);
  double sum = 0;
  for (double b : r.mapping) sum += b;
  EXPECT_EQ(sum, r.kept_bytes);
}

TEST(DataflowAnalyzer, ClustersThatSplitNReducePartialSumsGlobally) {
  const PaperProblem p{128, 1024, 128, 256};
  const PaperPoint x{Loops("spatial N, MLK"), {1, 1, 1, 1}, {128, 128, 64, 128}};
  const DataflowReport r = AnalyzeDataflow(p, x, *BuiltinModel("h200"));
  EXPECT_EQ(r.clusters, 8);
  const double weights = 2.0 * (128 * 1024 + 1024 * 256), a = 8 * 2.0 * 128 * 128;
  EXPECT_EQ(Of(r.volume, MemoryLevel::kGlobal), weights + a + 8 * 4.0 * 128 * 256);
}

TEST(DataflowAnalyzer, SumsOfCMustNotBeSpreadOverClusters) {
  const PaperProblem p{64, 64, 128, 64};
  EXPECT_FALSE(Realisable(p, {Loops("spatial K, MLN"), {1, 1, 4, 4}, {16, 16, 16, 16}}));
  EXPECT_TRUE(Realisable(p, {Loops("spatial K, MLN"), {1, 1, 4, 4}, {16, 16, 32, 16}}));
  EXPECT_TRUE(Realisable(p, {Loops("spatial N, MLK"), {1, 1, 4, 4}, {16, 16, 16, 16}}));
  EXPECT_FALSE(Realisable(p, {Loops("spatial N, MLK"), {1, 1, 4, 2}, {16, 16, 16, 16}}));
}

TEST(DataflowAnalyzer, CostIsTheSlowestLevel) {
  const DeviceModel model = *BuiltinModel("h200");
  const PaperPoint x{Loops("spatial N, MLK"), {1, 2, 1, 2}, {128, 128, 64, 128}};
  DataflowReport r{.clusters = 66};
  r.volume[static_cast<size_t>(MemoryLevel::kGlobal)] = 10 * model.hbm_bytes_per_us;
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 10);
  r.volume[static_cast<size_t>(MemoryLevel::kDsm)] = 20 * model.dsm_bytes_per_us[1];
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 20);
  r.clusters = 33;  // half the SMs: half the distributed shared memory
  EXPECT_DOUBLE_EQ(MinimaxCost(r, x, model), 40);
}

}  // namespace
}  // namespace sinter
