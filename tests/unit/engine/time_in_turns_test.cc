#include "src/engine/tune.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(TimeInTurnsTest, TimesEachOncePerRoundAndTakesMedians) {
  std::vector<int> order;
  const auto times = TimeInTurns(2, 3, [&](int i) -> absl::StatusOr<double> {
    order.push_back(i);
    return i * 100 + static_cast<double>(order.size() == 3 ? 90 : order.size());
  });
  ASSERT_TRUE(times.ok());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(*times, (std::vector<double>{5, 104}));  // of 1, 90, 5 and of 102, 104, 106
}

TEST(TimeInTurnsTest, CountsWholeRoundsOnly) {
  for (const int allowed : {1, 5}) {
    int calls = 0;
    const auto times = TimeInTurns(
        2, 3, [&](int) -> absl::StatusOr<double> { return ++calls; },
        [&] { return calls < allowed; });
    ASSERT_TRUE(times.ok());
    EXPECT_EQ(times->size(), allowed == 1 ? 0u : 2u);
  }
}

TEST(TimeInTurnsTest, AFailureIsTheResult) {
  const auto times = TimeInTurns(2, 3, [](int i) -> absl::StatusOr<double> {
    if (i == 1) return absl::InternalError("no time");
    return 1.0;
  });
  EXPECT_EQ(times.status().message(), "no time");
}

}  // namespace
}  // namespace sinter
