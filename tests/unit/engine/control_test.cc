#include "src/engine/control.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(BuildControlTest, WithoutLimitNothingEverStops) {
  const BuildControl control;
  EXPECT_TRUE(control.Enter("search", 0.5).ok());
  EXPECT_EQ(control.RemainingUs(1234), 1234);
}

TEST(BuildControlTest, CancelFlagNamesTheNextStage) {
  std::atomic<bool> cancel{false};
  const BuildControl control(0, &cancel, nullptr);
  EXPECT_TRUE(control.Check("search").ok());
  cancel = true;
  EXPECT_TRUE(Fails(control.Check("search"), absl::StatusCode::kCancelled, "search"));
}

TEST(BuildControlTest, DeadlinePasses) {
  const BuildControl control(1000, nullptr, nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(control.Check("compile")));
  EXPECT_EQ(control.RemainingUs(1000000), 0);
}

TEST(BuildControlTest, NegativeDeadlineHasPassedAndAHugeOneIsNone) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(BuildControl(-5, nullptr, nullptr).Check("x")));
  const BuildControl control(std::numeric_limits<int64_t>::max(), nullptr, nullptr);
  EXPECT_TRUE(control.Check("x").ok());
  EXPECT_EQ(control.RemainingUs(7), 7);
}

TEST(BuildControlTest, ProgressIsToldOnlyWhatGoesAhead) {
  std::atomic<bool> cancel{false};
  std::vector<std::string> stages;
  const BuildControl control(0, &cancel,
                             [&](absl::string_view stage, double) { stages.emplace_back(stage); });
  EXPECT_TRUE(control.Enter("search", 0.1).ok());
  cancel = true;
  EXPECT_FALSE(control.Enter("compile", 0.5).ok());
  EXPECT_THAT(stages, ElementsAre("search"));
}

}  // namespace
}  // namespace sinter
