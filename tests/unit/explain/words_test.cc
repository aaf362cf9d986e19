#include "src/explain/explain.h"
#include "src/plan/product_family.h"
#include "tests/support/chips.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_attention.h"
#include "tests/unit/plan/sample_kernels.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

// What plans say of themselves: which ops share kernels, by the caller's names; never "unfused".

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

// The lines that describe a kernel of attention: its formula, the items of scores, a block.

using Lines = std::vector<std::pair<std::string, std::string>>;

AttentionSchedule TwoWarpgroups() { return AttentionSchedule{.warpgroups = 2, .grid = 132}; }

std::string Formula(const AttentionProblem& problem) {
  const Lines lines = AttentionLines(problem, TwoWarpgroups(), 8);
  EXPECT_EQ(lines.at(0).first, "computes");
  return lines.at(0).second.substr(0, lines.at(0).second.find(", for each of "));
}

TEST(AttentionLines, FormulasNameEveryStep) {
  AttentionProblem p = SampleAttentionProblem();
  EXPECT_EQ(Formula(p), "out = softmax(causal(add(y,to_f32(r)))) v with y = 0.125 q k^T");
  p.causal = false;
  p.program = ScoreProgram("tanh(y * 0.125) * 50", {});
  EXPECT_EQ(Formula(p), "out = softmax(mul(tanh(y),50)) v with y = 0.125 q k^T");
  p.program = ScoreProgram("f32(f16(select(r, y, -1)))", {DType::kPred});
  EXPECT_EQ(Formula(p), "out = softmax(to_f32(to_f16(select(r,y,-1)))) v with y = q k^T");
  p.program = ScoreProgram("y * 0.125", {});
  EXPECT_EQ(Formula(p), "out = softmax(0.125 q k^T) v");
}

TEST(AttentionLines, TellOfItemsAndSharedMemory) {
  AttentionProblem p = SampleAttentionProblem();
  const AttentionSchedule s = TwoWarpgroups();
  const Lines lines = AttentionLines(p, s, 8);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[1].second, HasSubstr("are 4 x 128 rows and 12 tiles of 64 keys"));
  EXPECT_THAT(lines[1].second, HasSubstr("tiles that no row of an item sees are skipped"));
  EXPECT_THAT(lines[2].second, HasSubstr("132 blocks, each takes up to "));
  const int64_t rest = AttentionSharedBytes(p, s) - AttentionQueryBytes(p, s) * s.query_stages -
                       AttentionStageBytes(p, s) * s.stages;
  EXPECT_THAT(lines[3].second,
              HasSubstr(ToString({{"rows of q", AttentionQueryBytes(p, s), s.query_stages},
                                  {"ring", AttentionStageBytes(p, s), s.stages},
                                  {"other", rest}})));
  p.causal = false;
  EXPECT_THAT(AttentionLines(p, s, 8)[1].second, Not(HasSubstr("skipped")));
}

TEST(AttentionLines, AreInTextAndDrawing) {
  Plan plan;
  plan.kernels.emplace_back();
  plan.kernels[0].spec = SampleAttention();
  const Explanation e = Describe(plan, *BuiltinModel("h200"));
  for (const std::string& told : {ExplanationText(e), PlanSvg(e)}) {
    EXPECT_THAT(told, HasSubstr("out = softmax(causal(add(y,to_f32(r)))) v with y = 0.125 q k^T"));
    EXPECT_THAT(told, HasSubstr("rows of q"));
  }
}

double At(const LevelBytes& split, MemoryLevel level) { return split[static_cast<size_t>(level)]; }

TEST(IntermediateSplit, ASlabThatDoesNotHoldAllOfCLiesOnThreeLevels) {
  const ProductSequence p = SampleG7();
  const Schedule s = SampleSchedule(
      p, Dataflow::kClusterSlab);  // 16 rows, 8 blocks of 96 of the 768 columns, a slab of 384
  const LevelBytes split = IntermediateSplit(p, s);
  EXPECT_EQ(At(split, MemoryLevel::kShared), 16 * 96 * 2);
  EXPECT_EQ(At(split, MemoryLevel::kDsm), 16 * 288 * 2);
  EXPECT_EQ(At(split, MemoryLevel::kL2), 16 * 384 * 2);
  EXPECT_EQ(PictureOf(SampleSpec(p, s)).split_text,
            "c of a row tile: 3 KiB shared memory + 9 KiB DSM + 12 KiB L2");
}

TEST(IntermediateSplit, HoldsAllOfCWhateverTheDataflow) {
  const ProductSequence p = SampleS8();
  for (Dataflow dataflow : {Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    const Schedule s = SampleSchedule(p, dataflow);
    const LevelBytes split = IntermediateSplit(p, s);
    EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0.0), 2.0 * s.block_m * p[0].n);
  }
  const Schedule ranges = SampleSchedule(p, Dataflow::kClusterRanges);
  const LevelBytes split = IntermediateSplit(p, ranges);
  EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0.0),
            2.0 * ranges.block_m * ranges.cluster * ranges.first.block_n);
  EXPECT_EQ(PictureOf(SampleSpec(FirstOf(p), Dataflow::kProduct)).split_text, "");
}

}  // namespace
}  // namespace sinter
