#include "src/engine/tune.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(RankCorrelationTest, OrdersAgreeOrDisagree) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {10, 20, 21, 400}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  // One swap of neighbours among five: 1 - 6 * 2 / (5 * 24).
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3, 4, 5}, {1, 3, 2, 4, 5}), 0.9);
}

TEST(RankCorrelationTest, TiesShareTheirRank) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 1, 2}, {5, 5, 9}), 1);
}

TEST(RankCorrelationTest, TooLittleToSayIsZero) {
  EXPECT_EQ(RankCorrelation({}, {}), 0);
  EXPECT_EQ(RankCorrelation({1}, {2}), 0);
  EXPECT_EQ(RankCorrelation({1, 1}, {2, 3}), 0);
}

}  // namespace
}  // namespace sinter
