#include "tests/bench/statistics.h"

#include "tests/support/test.h"

namespace sinter::bench {
namespace {

using ::testing::DoubleNear;

TEST(PercentileTest, InterpolatesBetweenOrderStatistics) {
  const struct {
    std::vector<double> values;
    double percent, wanted;
  } cases[] = {
      {{}, 50, 0},         {{7}, 5, 7},        {{3, 1, 2}, 0, 1},         {{3, 1, 2}, 50, 2},
      {{3, 1, 2}, 100, 3}, {{1, 2}, 25, 1.25}, {{5, 4, 3, 2, 1}, 5, 1.2},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Percentile(c.values, c.percent), DoubleNear(c.wanted, 1e-12)) << c.percent;
  }
}

TEST(GeometricMeanTest, IsTheRootOfTheProduct) {
  EXPECT_DOUBLE_EQ(GeometricMean({}), 1);
  EXPECT_NEAR(GeometricMean({2, 8}), 4, 1e-12);
  EXPECT_NEAR(GeometricMean({0.5, 2, 3}), std::pow(3.0, 1.0 / 3), 1e-12);
}

TEST(StratifiedTest, TakesAllWhenThereAreNoMoreThanAskedFor) {
  EXPECT_THAT(Stratified({1, 2, 3}, 3, Strata::kTime, 1), ElementsAre(0u, 1u, 2u));
  EXPECT_THAT(Stratified({1, 2, 3}, 9, Strata::kCount, 1), ElementsAre(0u, 1u, 2u));
  EXPECT_TRUE(Stratified({1, 2, 3}, 0, Strata::kTime, 1).empty());
  EXPECT_TRUE(Stratified({}, 5, Strata::kTime, 1).empty());
}

TEST(StratifiedTest, DrawsOneFromEachStratumOfCount) {
  std::vector<double> times;
  for (int i = 0; i < 100; ++i) times.push_back(1 + i * i);
  const std::vector<size_t> picked = Stratified(times, 10, Strata::kCount, 5);
  ASSERT_EQ(picked.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(picked[i] / 10, i);
}

TEST(StratifiedTest, DrawsOneFromEachStratumOfTime) {
  std::vector<double> times;  // a factor of 16: strata begin at 1, 2, 4 and 8
  for (int i = 0; i < 97; ++i) times.push_back(1);
  times.insert(times.end(), {2, 4, 16});
  EXPECT_THAT(Stratified(times, 4, Strata::kTime, 3),
              ElementsAre(::testing::Lt(97u), 97u, 98u, 99u));
}

TEST(StratifiedTest, FillsThePlacesOfEmptyStrata) {
  std::vector<double> times(50, 1.0);
  times.push_back(1000);
  const std::vector<size_t> picked = Stratified(times, 20, Strata::kTime, 9);
  EXPECT_EQ(picked.size(), 20u);
  EXPECT_EQ(std::set<size_t>(picked.begin(), picked.end()).size(), 20u);
  EXPECT_EQ(picked.back(), 50u);
  EXPECT_TRUE(std::is_sorted(picked.begin(), picked.end()));
}

TEST(StratifiedTest, TakesEqualTimesByCount) {
  EXPECT_EQ(Stratified(std::vector<double>(30, 2.0), 7, Strata::kTime, 1).size(), 7u);
}

TEST(ShuffledTest, IsAPermutationThatTheSeedDecides) {
  std::vector<size_t> one = Shuffled(100, 1);
  EXPECT_EQ(one, Shuffled(100, 1));
  EXPECT_NE(one, Shuffled(100, 2));
  std::sort(one.begin(), one.end());
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], i);
}

}  // namespace
}  // namespace sinter::bench
