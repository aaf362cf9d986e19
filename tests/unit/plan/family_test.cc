// A family that plans have never heard of: what is asked of a kernel reaches it.
#include "src/plan/family.h"

#include "src/explain/explain.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"
#include "tests/support/sum_family.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

KernelSpec SumOf(int grid, int buffer = 3) {
  return KernelSpec{.family = &testing::SumFamily(),
                    .body = MakeBody(OwnSpec<testing::SumCode>{{{4, 4096, 0}, {grid, 1}},
                                                               {{buffer, 0}, {buffer + 1, 0}}})};
}

Plan PlanOf(const KernelSpec& spec) {
  Plan plan{.bucket = 128};
  plan.kernels.emplace_back();
  plan.kernels[0].spec = spec;
  plan.kernels[0].ops = {{7}, false, 0};
  return plan;
}

TEST(AnotherFamily, IsCheckedAndPredicted) {
  const DeviceModel model = *BuiltinModel("h200");
  const KernelSpec spec = SumOf(8), large = SumOf(1000);
  EXPECT_TRUE(spec.family->Check(spec, *CodeOf(spec), model, nullptr)->cooperative);
  EXPECT_TRUE(Says(large.family->Check(large, *CodeOf(large), model, nullptr),
                   "grid 1000 is above the chip's"));
  EXPECT_EQ(spec.family->Predict(spec, 128, model)->bound, "nvlink");
}

TEST(AnotherFamily, IsGeneratedAndBound) {
  const KernelSpec spec = SumOf(8);
  const auto kernel = Got(Generate(spec, *BuiltinModel("h200")));
  EXPECT_EQ(kernel.request.source, "// sum of 4 ranks\n");
  EXPECT_EQ(kernel.request.entry, "sinter_sum");
  EXPECT_EQ(kernel.recipe.grid[0], 8u);
  EXPECT_EQ(kernel.recipe.args[0].index, 3);
  EXPECT_TRUE(*RecipeOf(spec) == kernel.recipe);
  KernelSpec empty = spec;
  empty.body = nullptr;
  EXPECT_EQ(Generate(empty, *BuiltinModel("h200")).status().message(),
            "a kernel of sum has no problem");
  EXPECT_NE(DeviceHeadersDigest()(spec), Digest());
}

TEST(AnotherFamily, HasACodeAPlanAndADigest) {
  const KernelSpec spec = SumOf(8), other = SumOf(16), moved = SumOf(8, 4);
  EXPECT_EQ(CodeOf(spec)->Bytes(), CodeOf(moved)->Bytes());
  EXPECT_EQ(CodeOf(spec)->ProblemText(), "sum of 4 ranks");
  EXPECT_FALSE(spec == other);
  EXPECT_TRUE(spec == SumOf(8));
  EXPECT_NE(PlanOf(spec).PlanDigest(), PlanOf(other).PlanDigest());
  EXPECT_NE(PlanOf(spec).PlanDigest(), PlanOf(moved).PlanDigest());
  EXPECT_TRUE(PlanOf(spec).UsesM());
  EXPECT_FALSE(PlanOf(spec).IsStandIn());
  EXPECT_EQ(RowOrder(PlanOf(spec)), "ranks 0 to 3\n");
}

TEST(AnotherFamily, IsDescribed) {
  const std::string text = PlanOf(SumOf(8)).ToText();
  EXPECT_THAT(text, HasSubstr("sum of 4 ranks"));
  EXPECT_THAT(text, HasSubstr("grid 8"));
}

// Renderings are independent of families: text, JSON and drawing describe a kernel of any family.
TEST(AnotherFamily, IsToldOfByEveryRendering) {
  Plan plan = PlanOf(SumOf(8));
  plan.kernels.push_back(plan.kernels[0]);
  plan.kernels[0].prediction.total_us = plan.kernels[1].prediction.total_us = 5;
  plan.kernels[0].prediction.fixed_us = plan.kernels[1].prediction.fixed_us = 2;
  plan.kernels[1].spec = SumOf(8, 4);
  const DeviceModel model = *BuiltinModel("h200");
  Explanation e = Describe(plan, model, {{"", "", "", "partial"}, {false, false, false, true}});
  ExplainFusion(model, &e);
  EXPECT_EQ(e.computes, "2 kernels: 2 x sum");
  EXPECT_EQ(e.equal, (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(e.kernels[0].border_bytes, 2 * 128 * 4096 * 2);
  ASSERT_EQ(e.apart.size(), 1u);
  EXPECT_EQ(e.apart[0].why, "kernels that are never one");
  const std::string text = ExplanationText(e), svg = PlanSvg(e);
  EXPECT_THAT(text, HasSubstr("reads      partial (#3) bf16[M,4096]"));
  EXPECT_THAT(text, HasSubstr("together + fixed: predicted 5.00 us"));
  EXPECT_THAT(svg, HasSubstr("together + fixed = 5.00 us"));
  EXPECT_THAT(svg, HasSubstr("sum of 4 ranks"));
  EXPECT_THAT(ExplanationJson(e), HasSubstr("\"level\": \"together\""));
  EXPECT_THAT(PlanJson(plan), HasSubstr("\"family\": \"sum\""));
}

// Records are of listed families: bytes of another one are damage, not a crash.
TEST(AnotherFamily, IsReadOnlyWhereItIsListed) {
  const KernelSpec spec = SumOf(8);
  const std::string decisions = EncodeDecisions(DecisionsOf(PlanOf(spec)));
  EXPECT_TRUE(Says(DecodeDecisions(decisions), "a kernel of family 200"));
  const auto code = CodeOf(spec);
  EXPECT_TRUE(Says(ReadCode(code->Bytes(), code->ScheduleBytes()), "family 202"));
}

TEST(Families, HaveNumbersOfTheirOwn) {
  for (const KernelFamily* family : Families()) {
    EXPECT_EQ(FamilyOfNumber(family->number()), family) << family->name();
  }
  EXPECT_EQ(FamilyOfNumber(250), nullptr);
}

}  // namespace
}  // namespace sinter
