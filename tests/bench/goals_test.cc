#include "tests/bench/goals.h"

#include "tests/support/test.h"

namespace sinter::bench {
namespace {

Row RowOf(const char* id, double chosen, std::optional<double> unfused, std::optional<double> lt) {
  Row row;
  row.id = id;
  row.layout = "oi";
  row.chosen_cold_us = chosen;
  row.unfused_cold_us = unfused;
  row.cublaslt_cold_us = lt;
  return row;
}

TEST(BatchGoalsTest, RequiredRatioFollowsM) {
  const std::pair<int64_t, double> cases[] = {{1, 1.04},    {8, 1.04},   {16, 1.04},  {32, 1.08},
                                              {64, 1.12},   {128, 1.20}, {256, 1.15}, {512, 1.08},
                                              {1024, 1.08}, {4096, 1.00}};
  for (const auto& [m, ratio] : cases) EXPECT_DOUBLE_EQ(RequiredBatchRatio(m), ratio) << m;
}

TEST(BatchGoalsTest, SaysWhichRatiosAreShort) {
  const std::string text =
      BatchText({RowOf("L128", 100, 110, 121), RowOf("L64", 100, 110, 111), RowOf("S1", 1, 2, 3)});
  EXPECT_THAT(text, HasSubstr("1.21  1.20  reached"));
  EXPECT_THAT(text, HasSubstr("1.11  1.12  SHORT"));
  EXPECT_THAT(text, Not(HasSubstr("S1")));
}

TEST(BatchGoalsTest, SaysNothingOfOtherProblems) {
  EXPECT_EQ(BatchText({RowOf("G1", 1, 2, 3)}), "");
}

TEST(NeverSlowerTest, ComparesWithTheBetterOfBoth) {
  EXPECT_DOUBLE_EQ(*SpeedOf(RowOf("R1", 10, 12, 9)), 0.9);
  EXPECT_DOUBLE_EQ(*SpeedOf(RowOf("R1", 10, 12, 20)), 1.2);
  EXPECT_DOUBLE_EQ(*SpeedOf(RowOf("R1", 10, 12, std::nullopt)), 1.2);
  EXPECT_DOUBLE_EQ(*SpeedOf(RowOf("R1", 10, std::nullopt, 5)), 0.5);
  EXPECT_FALSE(SpeedOf(RowOf("R1", 10, std::nullopt, std::nullopt)).has_value());
}

TEST(NeverSlowerTest, PrintsTheTailOfTheDistribution) {
  std::vector<Row> rows(21, RowOf("R1", 10, 20, 10));
  rows.push_back(RowOf("R2", 10, 8.5, 20));
  const std::string text = NeverSlowerText(rows);
  EXPECT_THAT(text, HasSubstr("5th percentile 1.000 (aim 0.97, reached)"));
  EXPECT_THAT(text, HasSubstr("worst 0.850 (aim 0.90, SHORT)"));
  EXPECT_THAT(NeverSlowerText({}), HasSubstr("nothing"));
}

GraphRow GraphOf(const char* id, double chosen, double unfused, double limit) {
  return GraphRow{.id = id,
                  .kernels = 1,
                  .unfused_kernels = 4,
                  .chosen_us = chosen,
                  .unfused_us = unfused,
                  .limit_us = limit};
}

TEST(GraphsTest, PrintsMeansAndWhatIsSlowerThanUnfused) {
  GraphRow failed{.id = "x"};
  const std::string text = GraphsText({GraphOf("a", 10, 40, 9), GraphOf("b", 20, 10, 4.5), failed});
  EXPECT_THAT(text, HasSubstr("limit / chosen: geometric mean 0.450, least 0.225, of 2 graphs"));
  EXPECT_THAT(text,
              HasSubstr("unfused / chosen: geometric mean 1.414, least 0.500; 2 kernels of 8"));
  EXPECT_THAT(text, HasSubstr("below 0.97 of the unfused plan: b (0.500)"));
  EXPECT_THAT(GraphsText({GraphOf("a", 10, 10, 9)}), HasSubstr("unfused plan: none"));
  EXPECT_EQ(GraphsText({failed}), "");
}

TEST(BatchInvariantTest, PrintsMeanAndWorst) {
  Row one = RowOf("G1", 10, 10, 10), two = RowOf("G2", 10, 10, 10);
  one.batch_invariant_cold_us = 10;
  two.batch_invariant_cold_us = 12.1;
  EXPECT_THAT(BatchInvariantText({one, two}),
              HasSubstr("over 2 problems: geometric mean 1.100, most 1.210 (G2 oi)"));
  EXPECT_EQ(BatchInvariantText({RowOf("G1", 1, 1, 1)}), "");
}

}  // namespace
}  // namespace sinter::bench
