#include "tests/bench/cases.h"

#include <set>

#include "gtest/gtest.h"
#include "tests/bench/schedule_runs.h"
#include "tests/bench/search_quality.h"
#include "tests/bench/statistics.h"

namespace sinter::bench {
namespace {

std::vector<Case> Convolutions(const std::string& layout) {
  const auto cases = LoadCases({"tests/bench/problems/conv_chains.txt"}, {}, layout);
  EXPECT_TRUE(cases.ok()) << cases.status();
  return cases.ok() ? *cases : std::vector<Case>{};
}

TEST(LoadCases, TakesConvolutionsOnceInEveryLayout) {
  for (const char* layout : {"oi", "io", "both", "file"}) {
    EXPECT_EQ(Convolutions(layout).size(), 8u) << layout;
  }
  const auto products = LoadCases({"tests/bench/problems/gemm_chains.txt"}, {"G1"}, "both");
  ASSERT_TRUE(products.ok()) << products.status();
  EXPECT_EQ(products->size(), 2u);
}

// Pixels count once, however many windows hold them.
TEST(LoadCases, LimitsOfConvolutionsCountTheImages) {
  const double limits[] = {2.76, 2.76, 2.77, 3.44, 2.96, 2.92, 2.98, 4.05};
  const std::vector<Case> cases = Convolutions("file");
  ASSERT_EQ(cases.size(), 8u);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_NEAR(cases[i].LimitUs(), limits[i], 0.01) << cases[i].id;
  }
  EXPECT_NEAR(cases[5].Flop(), 0.334e9, 1e6);
}

// What --rank=50 measures of a convolution chain.
TEST(LoadCases, FiftySchedulesOfAConvolutionChainAreRanked) {
  const std::vector<Case> cases = Convolutions("file");
  for (const Case& c : cases) {
    if (c.id != "C1" && c.id != "C6") continue;
    const auto space = LegalSpaceOf(c.matched.sequence, *BuiltinModel("h200"));
    ASSERT_TRUE(space.ok()) << space.status();
    std::vector<double> times;
    for (const PlacedSchedule& s : space->schedules) times.push_back(s.ranked.prediction.total_us);
    const std::vector<size_t> picked = Stratified(times, 50, Strata::kTime, 1);
    EXPECT_EQ(std::set<size_t>(picked.begin(), picked.end()).size(), 50u) << c.id;
  }
}

}  // namespace
}  // namespace sinter::bench
