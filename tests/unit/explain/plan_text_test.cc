// Golden forms of a plan: a changed form is a changed format.
#include "src/explain/explain.h"
#include "tests/support/golden_file.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

std::string TextOf(const Plan& plan) { return PlanText(Describe(plan, *BuiltinModel("h200"))); }

TEST(PlanText, MatchesTheGoldenFiles) {
  testing::ExpectGoldenFile("tests/golden/plan/fused.txt", TextOf(SampleFusedPlan()));
  testing::ExpectGoldenFile("tests/golden/plan/unfused.txt", TextOf(SampleUnfusedPlan()));
  testing::ExpectGoldenFile("tests/golden/plan/fused.json", PlanJson(SampleFusedPlan()) + "\n");
}

TEST(PlanText, StaysOnOneScreen) {
  Plan plan = SampleUnfusedPlan();
  plan.note = "note";
  plan.runners_up.assign(40, {"fused", 20, "predicted slower"});
  const std::string text = TextOf(plan);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 28);
  EXPECT_NE(text.find("37 more"), std::string::npos);
}

TEST(PlanText, SumsTheKernels) { EXPECT_DOUBLE_EQ(SampleUnfusedPlan().PredictedUs(), 14.25); }

TEST(PlanText, SaysWhetherItIsBatchInvariantAndSurvivesBytesThatAreNotText) {
  Plan plan = SampleFusedPlan();
  EXPECT_NE(PlanJson(plan).find("\"batch_invariant\": false"), std::string::npos);
  for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
  EXPECT_NE(PlanJson(plan).find("\"batch_invariant\": true"), std::string::npos);
  EXPECT_NE(TextOf(plan).find("  batch-invariant\n"), std::string::npos);
  plan.note = "\xff\xfe";
  EXPECT_NE(PlanJson(plan).find("\"note\""), std::string::npos);
  plan.note = "a\ndigest forged\x1b[2J";  // of a record that somebody else wrote
  EXPECT_NE(TextOf(plan).find("note       a digest forged\\x1b[2J\n"), std::string::npos);
}

}  // namespace
}  // namespace sinter
