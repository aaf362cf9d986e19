// Records that lie, each in one way. Every field that is not changed is what planning made.
#include <algorithm>
#include <functional>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/launch_recipe.h"
#include "src/chain/builder.h"
#include "src/chain/problem.h"
#include "src/chain/replay.h"
#include "src/fusion/fit/plan_fit.h"
#include "src/fusion/fit/value_classes.h"
#include "tests/support/sequences.h"
#include "tests/unit/fusion/fit/chains.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

constexpr char kChainLine[] = "gemm_chain m=64 n=512 k=256 l=128 act=relu layout=oi dtype=bf16";
constexpr int64_t kBucket = 64;

Chain ProductChain() { return ParseProblem(kChainLine)->chain; }

Chain ChainNamed(const std::string& name) {
  for (const testing::NamedChain& of : testing::ChainsOfEveryKind()) {
    if (of.name == name) return of.chain;
  }
  ADD_FAILURE() << name;
  return Chain();
}

// The first plan for which `is` holds.
Plan PlanWith(const Chain& chain, int64_t bucket, const std::function<bool(const Plan&)>& is) {
  for (const Plan& plan : testing::PlansOf(chain, bucket, true)) {
    if (is(plan)) return plan;
  }
  ADD_FAILURE() << "no such plan";
  return Plan();
}

// Whose plans with both products in one kernel hand C over through L2.
Chain LargeChain() {
  return ParseProblem("gemm_chain m=64 n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16")->chain;
}
Plan ThroughL2() {
  return PlanWith(LargeChain(), kBucket,
                  [](const Plan& plan) { return WritesC(plan.kernels[0].spec.schedule); });
}

Plan Unfused(const Chain& chain, int64_t bucket = kBucket) {
  return PlanWith(chain, bucket, [](const Plan& plan) { return !plan.fused; });
}

OperandBinding& BindingOf(Plan& plan, size_t kernel, Role role) {
  for (OperandBinding& operand : plan.kernels[kernel].spec.operands) {
    if (operand.role == role) return operand;
  }
  ADD_FAILURE() << "no operand " << NameOf(role);
  return plan.kernels[kernel].spec.operands.front();
}

void ChangeStitch(Plan& plan, size_t kernel, const std::function<void(StitchSpec&)>& change) {
  StitchSpec stitch = *plan.kernels[kernel].spec.stitch;
  change(stitch);
  plan.kernels[kernel].spec.stitch = std::make_shared<const StitchSpec>(std::move(stitch));
}

// Whether a record can carry the plan is left open: some of these do not even decode.
std::string WhyNot(const Plan& plan, const Chain& chain, int64_t bucket = kBucket,
                   const FitRequest& request = {}) {
  const absl::Status status = CheckPlanFits(plan, chain, bucket, testing::H200(), request);
  EXPECT_FALSE(status.ok()) << plan.ToText();
  return std::string(status.message());
}

// Sums that stay in the tensor cores are less exact than those that are promoted.
TEST(PlanFitAttacks, FastSumsForPromotedOnes) {
  constexpr char kLine[] =
      "scaled_gemm_chain m=64 n=512 k=256 l=128 act=relu scales=row quantize=row";
  const Chain promoted = ParseProblem(kLine)->chain;
  const Chain fast = ParseProblem(absl::StrCat(kLine, " accumulate=fast"))->chain;
  const Plan plan = Unfused(fast);
  ASSERT_TRUE(CheckPlanFits(plan, fast, kBucket, testing::H200()).ok());
  EXPECT_THAT(WhyNot(plan, promoted), HasSubstr("accumulate"));
  EXPECT_FALSE(CheckPlanFits(Unfused(promoted), fast, kBucket, testing::H200()).ok());

  ChainBuilder b;
  const Dim m = Dim::M(), n = Dim::Constant(256);
  const ValueId a = *b.Input({DType::kE4M3, {m, n}}), w = *b.Input({DType::kE4M3, {n, n}});
  const ValueId scale = *b.Input({DType::kF32, {}});
  const ValueId one = *b.ScaledMatmul(a, w, scale, scale, Accumulate::kFast);
  const ValueId other = *b.ScaledMatmul(a, w, scale, scale);
  ASSERT_TRUE(b.Output(one).ok() && b.Output(other).ok());
  const Chain both = *b.Finish();
  const ValueClasses classes(both);
  EXPECT_NE(classes.Of(both.outputs()[0].value), classes.Of(both.outputs()[1].value));
}

// One launch knows its own m alone: a plan that is launched in passes cannot read such strides.
TEST(PlanFitAttacks, ScalesByMInALaunchOfSeveralPasses) {
  ChainBuilder b;
  const Dim m = Dim::M(), n = Dim::Constant(256), two = Dim::Constant(2);
  const ValueId a = *b.Input({DType::kE4M3, {m, n}}), w = *b.Input({DType::kE4M3, {n, n}});
  const ValueId sa = *b.Input({DType::kF32, {m, two}}, {false, {{1, 0}, {1, 1}}, "sa"});
  const ValueId sw = *b.Input({DType::kF32, {two, two}});
  ASSERT_TRUE(b.Output(*b.ScaledMatmul(a, w, sa, sw)).ok());
  const Chain chain = *b.Finish();
  Plan plan = Unfused(chain, 6144);
  ASSERT_TRUE(CheckPlanFits(plan, chain, 6144, testing::H200()).ok());
  plan.bucket = 8192;
  plan.kernels[0].spec.sequence.m = 8192;
  EXPECT_THAT(WhyNot(plan, chain, 8192), HasSubstr("product"));
}

TEST(PlanFitAttacks, AnOperandATebibyteBehindItsBuffer) {
  const Chain chain = ProductChain();
  for (const Role role : {Role::kA, Role::kW1}) {
    Plan plan = Unfused(chain);
    ASSERT_TRUE(CheckPlanFits(plan, chain, kBucket, testing::H200()).ok());
    BindingOf(plan, 0, role).offset_bytes = uint64_t{1} << 40;
    EXPECT_THAT(WhyNot(plan, chain), HasSubstr("lie outside buffer"));
  }
  Plan plan = Unfused(chain);
  BindingOf(plan, 1, Role::kOut).offset_bytes = 16;
  EXPECT_THAT(WhyNot(plan, chain),
              HasSubstr("kernel 1: out: 256 bytes at 16 lie outside buffer 3"));
}

TEST(PlanFitAttacks, RowsOfTwoMebibytesInASmallWorkspace) {
  const Chain chain = ProductChain();
  Plan plan = Unfused(chain);
  BindingOf(plan, 0, Role::kOut).row_stride = 1 << 20;
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("lie outside the workspace of"));
  plan = Unfused(chain);
  BindingOf(plan, 0, Role::kA).row_stride = 1 << 20;
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("lie outside buffer 0"));
  plan = Unfused(chain);
  BindingOf(plan, 1, Role::kA).row_stride -= 8;  // inside, and other rows
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("row stride"));
}

TEST(PlanFitAttacks, AGridBarrierOutsideTheClearedWords) {
  const Chain chain = ChainNamed("batch norm");
  const auto cooperative = [](const Plan& plan) {
    return plan.kernels[0].spec.workspace_flags_offset > 0;
  };
  for (const uint64_t offset : {uint64_t{0}, kGridBarrierOffset - 64, kGridBarrierOffset + 8,
                                kWorkspaceFlagBytes, kWorkspaceFlagBytes + 256}) {
    Plan plan = PlanWith(chain, kBucket, cooperative);
    plan.kernels[0].spec.workspace_flags_offset = offset;
    EXPECT_THAT(WhyNot(plan, chain), HasSubstr("barrier")) << offset;
  }
}

TEST(PlanFitAttacks, ReadyFlagsOutsideTheClearedWords) {
  for (const uint64_t offset : {uint64_t{4}, kGridBarrierOffset, kWorkspaceFlagBytes}) {
    Plan plan = ThroughL2();
    plan.kernels[0].spec.workspace_flags_offset = offset;
    EXPECT_THAT(WhyNot(plan, LargeChain()), HasSubstr("flags")) << offset;
  }
}

TEST(PlanFitAttacks, ConstantRowsFlipped) {
  const Chain moving = ProductChain();
  Plan plan = Unfused(moving);
  plan.kernels[0].spec.constant_rows = true;  // reads and writes 64 rows of a launch of one
  EXPECT_THAT(WhyNot(plan, moving), HasSubstr("lie outside buffer 0 of 512 bytes"));

  const Chain fixed = ChainNamed("layer of 48 rows");
  plan = Unfused(fixed, 1);
  for (PlannedKernel& kernel : plan.kernels) kernel.spec.constant_rows = false;
  EXPECT_THAT(WhyNot(plan, fixed, 1), HasSubstr("constant_rows 0, the chain's are 1"));
}

TEST(PlanFitAttacks, ConstantWeightsThatAreNone) {
  Plan plan = Unfused(ProductChain());
  plan.kernels[0].spec.constant_weights = !plan.kernels[0].spec.constant_weights;
  EXPECT_THAT(WhyNot(plan, ProductChain()), HasSubstr("constant_weights"));
}

TEST(PlanFitAttacks, AWorkspaceOf256Tebibytes) {
  const Chain chain = ProductChain();
  Plan plan = Unfused(chain);
  plan.workspace_bytes = uint64_t{1} << 48;
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("workspace_bytes 281474976710656 is above"));
  // Regions as far apart as that.
  BindingOf(plan, 0, Role::kOut).offset_bytes = BindingOf(plan, 1, Role::kA).offset_bytes =
      plan.workspace_bytes - kBucket * 512 * 2;
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("all results have room in"));
}

TEST(PlanFitAttacks, AWorkspaceSmallerThanItsRegions) {
  Plan plan = Unfused(ProductChain());
  plan.workspace_bytes -= 1024;
  EXPECT_THAT(WhyNot(plan, ProductChain()), HasSubstr("lie outside the workspace of"));
}

TEST(PlanFitAttacks, MoreSharedMemoryThanTheChipHas) {
  Plan plan = ThroughL2();
  plan.kernels[0].spec.schedule.stages = 32;
  EXPECT_THAT(WhyNot(plan, LargeChain()), HasSubstr("shared memory"));
  const Chain softmax = ParseProblem("softmax rows=M cols=200 scale=0.125")->chain;
  plan = testing::PlansOf(softmax, kBucket).front();
  ChangeStitch(plan, 0, [](StitchSpec& stitch) { stitch.schedule.blocks_per_sm = 32; });
  EXPECT_THAT(WhyNot(plan, softmax), HasSubstr("threads of an SM"));
}

TEST(PlanFitAttacks, ResultsThatLieOverWhatIsRead) {
  const Chain chain = ProductChain();
  Plan plan = Unfused(chain);
  BindingOf(plan, 0, Role::kOut).offset_bytes = 1024;  // over the header
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("begin before"));
  plan = ThroughL2();
  const OperandBinding c = BindingOf(plan, 0, Role::kC);
  BindingOf(plan, 0, Role::kOut).buffer = c.buffer;
  BindingOf(plan, 0, Role::kOut).offset_bytes = c.offset_bytes;
  EXPECT_THAT(WhyNot(plan, LargeChain()), HasSubstr("lies over what the kernel writes or reads"));
}

TEST(PlanFitAttacks, ResultsOverInputs) {
  Plan plan = Unfused(ProductChain());
  BindingOf(plan, 1, Role::kOut).buffer = 0;
  EXPECT_THAT(WhyNot(plan, ProductChain()), HasSubstr("is written to input 0"));
}

TEST(PlanFitAttacks, TheWrongInputOfTheRightSize) {
  // w1 and w2 are both [128, 128].
  const Chain chain =
      ParseProblem("gemm_chain m=64 n=128 k=128 l=128 act=relu layout=oi dtype=bf16")->chain;
  Plan plan = Unfused(chain);
  std::swap(BindingOf(plan, 0, Role::kW1).buffer, BindingOf(plan, 1, Role::kW1).buffer);
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("kernel 0"));
  plan = Unfused(chain);
  SetActivation(&plan.kernels[0].spec.sequence, Activation::kSilu);
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("the chain asks for"));
}

TEST(PlanFitAttacks, AStitchedKernelOfAnotherBody) {
  const auto softmax = [](double scale) {
    return ParseProblem(absl::StrCat("softmax rows=M cols=96 scale=", scale))->chain;
  };
  const Plan other = testing::PlansOf(softmax(0.5), kBucket).front();
  EXPECT_THAT(WhyNot(other, softmax(0.25)), HasSubstr("is not what the chain computes"));
}

TEST(PlanFitAttacks, InputsOfAStitchedKernelSwapped) {
  const Chain chain = ChainNamed(" residual_rmsnorm");
  Plan plan = testing::PlansOf(chain, kBucket).front();
  ChangeStitch(plan, 0, [&](StitchSpec& stitch) {
    for (size_t i = 0; i < stitch.operands.size(); ++i) {
      for (size_t j = i + 1; j < static_cast<size_t>(stitch.body.num_inputs()); ++j) {
        if (stitch.body.input_op(static_cast<int>(i)).type ==
            stitch.body.input_op(static_cast<int>(j)).type) {
          return std::swap(stitch.operands[i], stitch.operands[j]);
        }
      }
    }
    ADD_FAILURE() << "no two inputs are alike";
  });
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("is not what the chain computes"));
}

TEST(PlanFitAttacks, AnInPlaceOutputThatItsKernelDoesNotKnowOf) {
  const Chain chain = ChainNamed("adam");
  Plan plan = testing::PlansOf(chain, 1).front();
  // The same body with outputs of their own.
  ChangeStitch(plan, 0, [](StitchSpec& stitch) {
    const Chain body = stitch.body;
    ChainBuilder builder;
    std::vector<ValueId> ids;
    for (Op op : body.ops()) {
      for (ValueId& operand : op.operands) operand = ids[static_cast<size_t>(operand)];
      ids.push_back(*Replay(builder, op, false));
    }
    for (const ChainOutput& output : body.outputs()) {
      OutputOptions options;
      options.strides = output.strides;
      ASSERT_TRUE(builder.Output(ids[static_cast<size_t>(output.value)], options).ok());
    }
    stitch.body = *builder.Finish();
  });
  EXPECT_THAT(WhyNot(plan, chain, 1), HasSubstr("does not say that it takes the place of input"));
}

TEST(PlanFitAttacks, KernelsInAnotherOrderTwiceOrNotAtAll) {
  const Chain chain = ProductChain();
  Plan plan = Unfused(chain);
  std::swap(plan.kernels[0], plan.kernels[1]);
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("no earlier kernel left them there"));
  plan = Unfused(chain);
  plan.kernels.push_back(plan.kernels.back());
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("is stored twice"));
  plan = Unfused(chain);
  plan.kernels.pop_back();
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("is left in the workspace to no kernel"));
  Plan apart = Unfused(ChainNamed("layer"));
  apart.kernels.pop_back();
  EXPECT_THAT(WhyNot(apart, ChainNamed("layer")), HasSubstr("no kernel stores output 0"));
  plan = Unfused(chain);
  plan.kernels.resize(chain.ops().size() + 1, plan.kernels.front());
  EXPECT_THAT(WhyNot(plan, chain), HasSubstr("kernels for"));
}

TEST(PlanFitAttacks, AnotherBucketAnotherChainOtherWishes) {
  const Chain chain = ProductChain();
  const Plan plan = Unfused(chain);
  EXPECT_THAT(WhyNot(plan, chain, 128), HasSubstr("it is for bucket 64, asked for is 128"));
  const Chain other =
      ParseProblem("gemm_chain m=64 n=512 k=256 l=128 act=silu layout=oi dtype=bf16")->chain;
  EXPECT_THAT(WhyNot(plan, other), HasSubstr("the chain asks for"));
  FitRequest alone;
  alone.allow_cooperative = false;
  EXPECT_THAT(WhyNot(ThroughL2(), LargeChain(), kBucket, alone), HasSubstr("waits across blocks"));
}

TEST(PlanFitAttacks, AnotherNormOfTheRowsOrNone) {
  const Chain chain = ChainNamed("layer with its norm in the matrices");
  const auto norms = [](const Plan& plan) {
    const KernelSpec& first = plan.kernels[0].spec;
    return first.stitch == nullptr && first.sequence[0].epilogue.has_norm();
  };
  const Plan plan = PlanWith(chain, 16, norms);
  ASSERT_TRUE(CheckPlanFits(plan, chain, 16, testing::H200()).ok());
  Plan without = plan;
  without.kernels[0].spec.sequence[0].epilogue.Remove(EpilogueOp::kNorm);
  EXPECT_THAT(WhyNot(without, chain, 16), HasSubstr("the chain asks for"));
  Plan other = plan;
  other.kernels[0].spec.sequence[0].epilogue.Set(NormOf(1e-3f));
  EXPECT_THAT(WhyNot(other, chain, 16), HasSubstr("the chain asks for"));
  Plan added = plan;  // of the rows of the second product, which the chain does not normalise
  ASSERT_EQ(added.kernels.back().spec.stitch, nullptr);
  added.kernels.back().spec.sequence[0].epilogue.Set(NormOf(1e-6f));
  EXPECT_THAT(WhyNot(added, chain, 16), HasSubstr("norm"));
  Plan tall = plan;  // factors of more rows than lie behind the barriers
  tall.kernels[0].spec.schedule.block_m = 64;
  WhyNot(tall, chain, 16);
}

TEST(PlanFitAttacks, ScratchWhereAKernelBeforeMayStillRead) {
  const Chain chain = ChainNamed("glue");
  for (Plan plan : testing::PlansOf(chain, 1)) {
    if (plan.kernels.size() < 3 || !CheckPlanFits(plan, chain, 1, testing::H200()).ok()) continue;
    // A result in the place of what the kernel before reads there.
    for (size_t k = 1; k < plan.kernels.size(); ++k) {
      const StitchSpec* stitch = plan.kernels[k].spec.stitch.get();
      if (stitch == nullptr) continue;
      const auto inputs = static_cast<size_t>(stitch->body.num_inputs());
      for (size_t i = inputs; i < stitch->operands.size(); ++i) {
        if (stitch->operands[i].buffer != kWorkspaceBuffer) continue;
        const std::vector<OperandBinding>& before = plan.kernels[k - 1].spec.operands;
        const auto read = std::find_if(before.begin(), before.end(), [](const OperandBinding& b) {
          return b.role == Role::kA && b.buffer == kWorkspaceBuffer;
        });
        if (read == before.end()) continue;
        ChangeStitch(plan, k,
                     [&](StitchSpec& s) { s.operands[i].offset_bytes = read->offset_bytes; });
        EXPECT_THAT(WhyNot(plan, chain, 1), HasSubstr("may still read what lies there"));
        return;
      }
    }
  }
  FAIL() << "no plan has a product between two stitched kernels";
}

TEST(PlanFitAttacks, NumbersThatOverflow) {
  const Chain chain = ProductChain();
  for (const uint64_t offset : {~uint64_t{0}, ~uint64_t{0} - 15, uint64_t{1} << 63}) {
    for (size_t i = 0; i < Unfused(chain).kernels[0].spec.operands.size(); ++i) {
      Plan plan = Unfused(chain);
      plan.kernels[0].spec.operands[i].offset_bytes = offset;
      WhyNot(plan, chain);
      plan = Unfused(chain);
      plan.kernels[0].spec.operands[i].row_stride = static_cast<int64_t>(offset / 2);
      WhyNot(plan, chain);
    }
  }
}

}  // namespace
}  // namespace sinter
