#include "tests/bench/search_quality.h"

#include "tests/support/test.h"

namespace sinter::bench {
namespace {

SweepRow Measured(int rank, double predicted, std::optional<double> measured) {
  SweepRow row{.rank = rank, .schedule = "schedule " + std::to_string(rank)};
  row.predicted_us["total"] = predicted;
  row.measured_us = measured;
  return row;
}

TEST(SearchQualityTest, JudgesASampleThatOverlapsTheTop) {
  SearchRow row;
  Judge({Measured(1, 5, 6.1), Measured(4, 7, 9), Measured(9, 9, 5.8), Measured(12, 10, 11)},
        {Measured(1, 5, 6), Measured(2, 6, std::nullopt)}, &row);
  EXPECT_EQ(row.measured, 4);
  EXPECT_EQ(row.failed, 1);
  EXPECT_DOUBLE_EQ(*row.best_us, 5.8);
  EXPECT_EQ(row.best_schedule, "schedule 9");
  EXPECT_DOUBLE_EQ(*row.top_us, 6);
  EXPECT_DOUBLE_EQ(*row.first_us, 6.1);
  EXPECT_NEAR(*row.spearman, 0.4, 1e-12);
}

TEST(SearchQualityTest, NothingMeasuredIsAbsent) {
  SearchRow row;
  Judge({}, {Measured(1, 5, std::nullopt)}, &row);
  EXPECT_FALSE(row.best_us.has_value());
  EXPECT_FALSE(row.spearman.has_value());
  EXPECT_THAT(BruteForceText(row), HasSubstr("not measured"));
}

TEST(SearchQualityTest, TextsSayWhatIsReached) {
  SearchRow row{.id = "G3",
                .legal = 1000,
                .measured = 500,
                .best_us = 5,
                .top_us = 6,
                .first_us = 5.4,
                .spearman = 0.95,
                .search_seconds = 2,
                .all_seconds = 50};
  EXPECT_THAT(BruteForceText(row), HasSubstr("5.40 us, 1.080 of the best (at most 1.10: reached)"));
  EXPECT_THAT(RankText(row, 5.0), HasSubstr("6.00 us, 1.200 of the best (at most 1.10: SHORT)"));
  EXPECT_THAT(RankText(row, 5.0), HasSubstr("0.950 (at least 0.9: reached)"));
  EXPECT_THAT(SearchTimesText({row}), HasSubstr("100.0    50.0\n"));
}

}  // namespace
}  // namespace sinter::bench
