#include "src/search/paper_search.h"

#include <chrono>
#include <cstdio>

#include "gtest/gtest.h"

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
  const auto begin = std::chrono::steady_clock::now();
  const PaperSearchResult found = PaperSearch(p, *BuiltinModel("h200"), 11);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  printf("GPT-6.7B, M = 256: %llu candidates after the rules, %llu of them costed, %.2f s\n",
         static_cast<unsigned long long>(found.survivors),
         static_cast<unsigned long long>(found.realisable), spent.count());
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
  std::printf("G1: %s, cluster %d blocks, tile %dx%dx%dx%d, %.3f us of %llu survivors\n",
              a.best[0].point.loops.ToString().c_str(),
              static_cast<int>(a.best[0].point.cluster.Blocks()),
              static_cast<int>(a.best[0].point.tile.m), static_cast<int>(a.best[0].point.tile.n),
              static_cast<int>(a.best[0].point.tile.k), static_cast<int>(a.best[0].point.tile.l),
              a.best[0].cost_us, static_cast<unsigned long long>(a.survivors));
}

TEST(PaperSearch, KeepsNothingWhenAskedForNothing) {
  const auto none = PaperSearch({32, 32, 32, 32}, *BuiltinModel("h200"), 0);
  EXPECT_TRUE(none.best.empty());
  EXPECT_GT(none.survivors, 0u);
}

}  // namespace
}  // namespace sinter
