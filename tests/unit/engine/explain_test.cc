// Every plan that does not run is listed once, with the best known reason.
#include "src/engine/prepared_plan.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using Why = PassedOver::Why;

const Digest kPlans[] = {Sha256("a"), Sha256("b"), Sha256("c")};

std::vector<std::string> Lines(const LoadedPlan& plan) {
  std::vector<std::string> lines;
  for (const Candidate& c : NotChosen(plan)) lines.push_back(c.name + ": " + c.why_not);
  return lines;
}

TEST(NotChosen, MergesWhatPlanningAndTheEngineSay) {
  LoadedPlan plan;
  plan.plan.fused = true;
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower: fixed", kPlans[0]},
                          {"fused [y]", 12, "predicted 2 us slower: dsm", kPlans[1]}};
  plan.passed_over = {{kPlans[1], true, 12, Why::kFailed, "registers spill"},
                      {kPlans[0], false, 14, Why::kSlower, ""}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: predicted 4 us slower: fixed",
                                       "fused [y]: registers spill"));
}

TEST(NotChosen, ShowsAFailureThatPlanningDidNotListFirst) {
  LoadedPlan plan;
  plan.plan.runners_up = {{"unfused [x]", 14, "predicted 4 us slower", kPlans[0]}};
  plan.passed_over = {{kPlans[1], true, 9, Why::kFailed, "the driver keeps 14 clusters"},
                      {kPlans[2], false, 14, Why::kSlower, ""}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: the driver keeps 14 clusters",
                                       "unfused [x]: predicted 4 us slower"));
}

TEST(NotChosen, FallsBackToTheEnginesListWithoutOneOfPlanning) {
  LoadedPlan plan{.passed_over = {{kPlans[1], true, 9, Why::kNotAskedFor, ""},
                                  {kPlans[0], false, 15, Why::kSlower, ""}}};
  EXPECT_THAT(Lines(plan), ElementsAre("fused: not asked for", "the plain plan: predicted slower"));
}

TEST(NotChosen, LeavesOutThePlanItself) {
  LoadedPlan plan;
  plan.plan.fused = true;
  plan.plan.kernels.emplace_back();
  plan.plan.runners_up = {{"fused [y]", 12, "predicted slower", plan.plan.PlanDigest()},
                          {"unfused [x]", 14, "slower", kPlans[0]}};
  EXPECT_THAT(Lines(plan), ElementsAre("unfused [x]: slower"));
}

}  // namespace
}  // namespace sinter
