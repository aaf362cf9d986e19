// The published counts for GPT-6.7B with M = 256: N = 16384, K = L = 4096.
#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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

}  // namespace
}  // namespace sinter
