#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using testing::FakeWorld;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TuneTest, BuildsChecksAndTimesTheRankingAndReportsIt) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const std::string report = engine->Tune(world.chain, 16, {})->report;
  EXPECT_THAT(report, HasSubstr("tuning at m <= 16 on Fake H200"));
  EXPECT_THAT(report, HasSubstr("11.50"));
  EXPECT_THAT(report, HasSubstr("of 3 plans"));
  EXPECT_THAT(report, HasSubstr("the predicted choice stands"));
  EXPECT_EQ(world.compiles, 4);
  // What was tuned is warm afterwards, and marked.
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 4);
}

TEST(TuneTest, WrongAndRefusedPlansAreListedWithoutATime) {
  FakeWorld world;
  world.wrong = {"grid"};
  world.refused = {"cluster"};
  const auto engine = world.MakeEngine();
  const std::string report = engine->Tune(world.chain, 16, {})->report;
  EXPECT_THAT(report, HasSubstr("wrong: "));
  EXPECT_THAT(report, HasSubstr("registers spill in cluster"));
  EXPECT_THAT(report, HasSubstr("of 1 plans"));
  EXPECT_THAT(report, HasSubstr("rank 3 is faster"));
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
}

TEST(TuneTest, PlansThatAreNotResidentAreNotTimed) {
  FakeWorld world;
  world.resident_clusters = 14;
  EXPECT_THAT(world.MakeEngine()->Tune(world.chain, 16, {})->report,
              HasSubstr("keeps 14 clusters of 8 resident"));
}

TEST(TuneTest, TopKLimitsTheRankingButNotTheUnfusedPlan) {
  FakeWorld world;
  TuneOptions options;
  options.top_k = 1;
  const std::string report = world.MakeEngine()->Tune(world.chain, 16, options)->report;
  EXPECT_THAT(report, HasSubstr("unfused"));
  EXPECT_THAT(report, HasSubstr("of 2 plans"));
  EXPECT_EQ(world.compiled["cluster"], 0);
}

TEST(TuneTest, ADeadlineEndsIt) {
  FakeWorld world;
  TuneOptions options;
  options.deadline_us = 1;
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(world.MakeEngine()->Tune(world.chain, 16, options).status()));
}

}  // namespace
}  // namespace sinter
