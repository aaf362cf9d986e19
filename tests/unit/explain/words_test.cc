// What plans say of themselves: which ops share kernels, by the caller's names; never "unfused".
#include "src/explain/explain.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_kernels.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

const BufferNames kNames = {{"hidden", "gate_proj", "up_proj", "down_proj", "output"},
                            {true, true, true, true, false}};

TEST(Words, OpsInOneKernelAreNamedTogether) {
  EXPECT_EQ(Describe(SampleUnfusedPlan(), H200()).computes,
            "2 kernels: gate, up and silu in one; product");
  EXPECT_EQ(Describe(SampleFusedPlan(), H200()).computes,
            "1 kernel: gate, up, silu and product in one");
}

TEST(Words, WeightsHaveTheCallersNames) {
  const Explanation e = Describe(SampleFusedPlan(), H200(), kNames);
  EXPECT_EQ(e.computes, "1 kernel: gate_proj, up_proj, silu and down_proj in one");
  EXPECT_THAT(PlanText(e), AllOf(HasSubstr("a=#0/1024 (hidden)"), HasSubstr("(output)")));
  EXPECT_THAT(PlanSvg(e),
              AllOf(HasSubstr("w1 = gate_proj"), HasSubstr("hidden (#0) bf16[M,1024]")));
  EXPECT_THAT(ExplanationJson(e), HasSubstr("\"name\": \"up_proj\""));
}

TEST(Words, WhatAProductsKernelTakesAlongIsListed) {
  ProductSequence p = FirstOf(SampleG7());
  SetBias(&p, 0);
  SetResidual(&p, Residual::kAdded);
  PlannedKernel kernel, conv;
  kernel.spec = SampleSpec(p, Dataflow::kProduct);
  conv.spec = SampleSpec(SampleProblem(SampleC6(), Dataflow::kProduct),
                         SampleC6Schedule(Dataflow::kProduct));
  const Explanation e = Describe({.kernels = {kernel, conv}}, H200());
  EXPECT_TRUE(e.kernels[0].shares);
  EXPECT_THAT(e.kernels[0].computes, AllOf(HasSubstr("product, bias"), HasSubstr("residual")));
  EXPECT_THAT(e.kernels[1].computes, HasSubstr("convolution"));
}

TEST(Tensors, ScalesOfAQuantisedResultAreWritten) {
  ProductSequence p = FirstOf(SampleG7());
  QuantizeRule rule{.columns = 128};
  SetQuantized(&p, rule);
  Plan plan;
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SampleSpec(p, SampleSchedule(p, Dataflow::kProduct));
  const std::vector<OperandBinding>& operands = ProductOf(plan.kernels[0].spec).operands;
  ASSERT_EQ(operands.back().role, Role(Role::kScaleOut));
  const PlanTensors tensors = TensorsOf(plan);
  ASSERT_EQ(tensors.kernels[0].writes.size(), 2u);
  EXPECT_EQ(tensors.kernels[0].reads.size(), operands.size() - 2);
  const PlanTensor& scales = tensors.tensors[static_cast<size_t>(tensors.kernels[0].writes[1])];
  EXPECT_EQ(scales.writer, 0);
  EXPECT_TRUE(scales.given_out);
}

TEST(Words, KernelsThatComputeAlikeAreCounted) {
  std::vector<KernelDescription> kernels(9);
  for (size_t i = 0; i < kernels.size(); ++i) {
    kernels[i].computes = i < 2 ? "add and mul" : "sum " + std::to_string(i);
    kernels[i].shares = i < 2;
  }
  EXPECT_EQ(
      ComputesOf(kernels),
      "9 kernels: 2 x add and mul in one; sum 2; sum 3; sum 4; sum 5; sum 6; and 2 other kinds");
}

TEST(Words, NoRenderingSaysUnfused) {
  for (const Plan& sample : {SampleFusedPlan(), SampleUnfusedPlan()}) {
    Plan plan = sample;
    plan.runners_up = {{NameInList(SampleUnfusedPlan()), 20, "slower"}};
    const Explanation e = Describe(plan, H200(), kNames);
    for (const std::string& text :
         {PlanText(e), SummaryText(e), ExplanationText(e), ExplanationJson(e), PlanSvg(e)}) {
      EXPECT_THAT(text, Not(HasSubstr("unfused")));
      EXPECT_THAT(text, Not(HasSubstr("not fused")));
    }
  }
}

}  // namespace
}  // namespace sinter
