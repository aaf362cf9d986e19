// Golden forms of a plan: a changed form is a changed format.
#include <algorithm>

#include "gtest/gtest.h"
#include "src/plan/plan.h"
#include "tests/support/golden_file.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

TEST(PlanText, MatchesTheGoldenFiles) {
  testing::ExpectGoldenFile("tests/golden/plan/fused.txt", SampleFusedPlan().ToText());
  testing::ExpectGoldenFile("tests/golden/plan/unfused.txt", SampleUnfusedPlan().ToText());
  testing::ExpectGoldenFile("tests/golden/plan/fused.json", SampleFusedPlan().ToJson() + "\n");
}

TEST(PlanText, StaysOnOneScreen) {
  Plan plan = SampleUnfusedPlan();
  plan.note = "note";
  plan.runners_up.assign(40, {"fused", 20, "predicted slower"});
  const std::string text = plan.ToText();
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 28);
  EXPECT_NE(text.find("37 more"), std::string::npos);
}

TEST(PlanText, SumsTheKernels) { EXPECT_DOUBLE_EQ(SampleUnfusedPlan().PredictedUs(), 14.25); }

TEST(PlanText, JsonSurvivesBytesThatAreNotText) {
  Plan plan = SampleFusedPlan();
  plan.note = "\xff\xfe";
  EXPECT_NE(plan.ToJson().find("\"note\""), std::string::npos);
  plan.note = "a\ndigest forged\x1b[2J";  // of a record that somebody else wrote
  EXPECT_NE(plan.ToText().find("note       a digest forged\\x1b[2J\n"), std::string::npos);
}

}  // namespace
}  // namespace sinter
