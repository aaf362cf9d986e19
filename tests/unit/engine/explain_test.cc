// Every plan that does not run is listed once, with what is known best.
#include "src/engine/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sinter {
namespace {

std::vector<std::string> Lines(const LoadedPlan& plan) {
  std::vector<std::string> lines;
  for (const Candidate& c : NotChosen(plan)) lines.push_back(c.name + ": " + c.why_not);
  return lines;
}

using ::testing::ElementsAre;

TEST(NotChosen, MergesWhatPlanningAndTheEngineSay) {
  LoadedPlan plan;
  plan.plan.name = "fused";
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower: fixed"},
                          {"fused [y]", 12, "predicted 2 us slower: dsm"}};
  plan.passed_over = {{"fused", 12, "registers spill"}, {"unfused", 14, "predicted slower"}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: predicted 4 us slower: fixed",
                                       "fused [y]: registers spill"));
}

TEST(NotChosen, ShowsAFailureThatPlanningDidNotListFirst) {
  LoadedPlan plan;
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower"}};
  plan.passed_over = {{"fused", 9, "the driver keeps 14 clusters"},
                      {"unfused", 15, "predicted slower"}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: the driver keeps 14 clusters",
                                       "unfused [x]: predicted 4 us slower"));
}

TEST(NotChosen, FallsBackToTheEnginesListWithoutOneOfPlanning) {
  LoadedPlan plan;
  plan.passed_over = {{"fused", 9, "not asked for"}, {"unfused", 15, "predicted slower"}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: not asked for", "unfused: predicted slower"));
}

TEST(NotChosen, LeavesOutThePlanItself) {
  LoadedPlan plan;
  plan.plan.name = "fused";
  plan.plan.kernels.emplace_back();
  const std::string self = "fused [" + plan.plan.kernels[0].spec.schedule.ToString() + "]";
  plan.plan.runners_up = {{self, 12, "predicted slower"}, {"unfused [x]", 14, "slower"}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: slower"));
}

}  // namespace
}  // namespace sinter
