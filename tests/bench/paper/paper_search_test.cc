#include "tests/bench/paper/paper.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(PaperSearch, KeepsTheCheapestOfEverySurvivor) {
  const PaperProblem p{32, 64, 32, 32};
  const DeviceModel model = *BuiltinModel("h200");
  const PaperSearchResult found = PaperSearch(p, model, 11);
  double cheapest = 1e300;
  uint64_t survivors = 0, realisable = 0;
  PaperSpace(p, model, RuleSet::All()).ForEach([&](const PaperPoint& x) {
    survivors++;
    if (!Realisable(p, x)) return;
    realisable++;
    cheapest = std::min(cheapest, MinimaxCost(AnalyzeDataflow(p, x, model), x, model));
  });
  ASSERT_EQ(found.best.size(), 11u);
  EXPECT_EQ(found.best[0].cost_us, cheapest);
  EXPECT_EQ(found.survivors, survivors);
  EXPECT_EQ(found.realisable, realisable);
  for (size_t i = 1; i < found.best.size(); i++) {
    EXPECT_GE(found.best[i].cost_us, found.best[i - 1].cost_us);
  }
}

TEST(PaperSearch, ConsidersAMillionCandidatesOfGpt67B) {
  const PaperProblem p{256, 16384, 4096, 4096};
  const PaperSearchResult found = PaperSearch(p, *BuiltinModel("h200"), 11);
  EXPECT_GE(found.survivors, 1000000u);
  EXPECT_EQ(found.best.size(), 11u);
}

TEST(PaperSearch, IsDeterministic) {
  const PaperProblem p{128, 512, 32, 256};
  const DeviceModel model = *BuiltinModel("h200");
  const auto a = PaperSearch(p, model, 5), b = PaperSearch(p, model, 5);
  ASSERT_EQ(a.best.size(), b.best.size());
  for (size_t i = 0; i < a.best.size(); i++) {
    EXPECT_EQ(a.best[i].cost_us, b.best[i].cost_us);
    EXPECT_TRUE(a.best[i].point.cluster == b.best[i].point.cluster);
  }
}

TEST(PaperSearch, KeepsNothingWhenAskedForNothing) {
  const auto none = PaperSearch({32, 32, 32, 32}, *BuiltinModel("h200"), 0);
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(none.survivors, 0u);
}

}  // namespace
}  // namespace sinter
