// Plans with a kernel of attention compute their chains: where operands lie, what masks mean, and
// what is computed before.
#include "src/base/device_model.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/normal/normal_form.h"
#include "src/plan/attention_family.h"
#include "tests/support/attention_chains.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeast = -std::numeric_limits<float>::max();
constexpr char kLeastText[] = "-3.4028234663852886e38";

std::shared_ptr<const Chain> NormalOf(const Chain& chain) {
  return Got(NormalFormOf(std::make_shared<const Chain>(chain)))->chain;
}

// Operands, and an expression of scores s.
constexpr char kOperands[] = "q, k, v: bf16[3,2,40,16]; ";
constexpr char kScores[] = "s = (q @ k.T) * 0.25; ";
constexpr char kResult[] = "p = bf16(softmax(s)); out bf16(p @ v)";

// Attention whose scores become the value of `steps`.
Chain WithSteps(absl::string_view steps) {
  const size_t last = steps.rfind("; ") == steps.npos ? 0 : steps.rfind("; ") + 2;
  return ReadChain(absl::StrCat(kOperands, kScores, steps.substr(0, last),
                                "s = ", steps.substr(last), "; ", kResult));
}

// Scores where `condition` of rows and keys holds, and a number where it does not.
std::string Where(absl::string_view condition, absl::string_view number) {
  return absl::StrCat("select(spread(", condition, ", s), s, spread(", number, ", s))");
}
// The same where a row sees a key.
std::string Hidden(absl::string_view number) {
  return Where("ge(iota([40,40], 0, s32), iota([40,40], 1, s32))", number);
}

// Probabilities of a softmax whose statistics have bounds, and the result.
std::string BoundedResult(double least_score, double least_sum) {
  return absl::Substitute(
      "powers = exp(s - spread(max(reduce_max(s, 3, keep), $0), s));"
      "p = bf16(powers / spread(max(sum(powers, 3, keep), $1), s)); out bf16(p @ v)",
      absl::StrFormat("%.17g", least_score), absl::StrFormat("%.17g", least_sum));
}

// How many kernels of attention the plans of the chain's normal form have. All compute it.
int ExpectComputes(const Chain& given) {
  const auto chain = NormalOf(given);
  const auto planned = Got(PlanChain(*chain, 4, *BuiltinModel("h200"), {}), chain->ToString());
  std::vector<Plan> plans = {planned.chosen};
  plans.insert(plans.end(), planned.alternatives.begin(), planned.alternatives.end());
  int kernels = 0, judged = 0;
  for (const Plan& plan : plans) {
    int here = 0;
    for (const PlannedKernel& kernel : plan.kernels) {
      here += kernel.spec.family == &AttentionFamily();
    }
    kernels += here;
    if (here == 0 || ++judged > 3) continue;  // schedules read and write alike
    EXPECT_LT(testing::WorstError(*chain, plan, 3, 7), 0.02) << plan.ToText();
  }
  return kernels;
}

bool IsCausal(const Chain& given) {
  const auto found = FindAttention(*NormalOf(given));
  EXPECT_EQ(found.size(), 1u);
  return !found.empty() && found[0].problem.causal;
}

TEST(AttentionValues, ReadAComputedOperandAsItsOutputLies) {
  const Chain chain = ReadChain(
      absl::StrCat("q, x, y: bf16[3,2,40,16]; k = bf16(tanh(f32(x))); v = bf16(tanh(f32(y)));"
                   "out k strides(1920, 960, 24, 1), v strides(1280, 16, 32, 1);",
                   kScores, kResult));
  EXPECT_GT(ExpectComputes(chain), 0);
}

// Heads that share keys are rows of one batch, wherever operands and terms lie.
TEST(AttentionValues, JoinTheHeadsOfAGroup) {
  using Form = testing::AttentionForm;
  for (const Form::Layout layout : {Form::Layout::kHeadsFirst, Form::Layout::kRowsFirst}) {
    for (const Form::Term term :
         {Form::Term::kNone, Form::Term::kOfHeads, Form::Term::kOfKeys, Form::Term::kMask}) {
      for (const bool of_m : {false, true}) {
        for (const int64_t group : {2, 6}) {
          Form form;
          form.batch = 3, form.heads = 6, form.rows = 1, form.keys = 40, form.head = 16;
          form.layout = layout, form.term = term, form.of_m = of_m, form.group = group;
          const Chain chain = testing::MakeAttention(form);
          const auto found = FindAttention(*NormalOf(chain));
          ASSERT_EQ(found.size(), 1u) << form.Name();
          EXPECT_EQ(found[0].problem.rows, group) << form.Name();
          EXPECT_GT(ExpectComputes(chain), 0) << form.Name();
        }
      }
    }
  }
}

// More rows than a kernel has stay batches.
TEST(AttentionValues, JoinNoMoreHeadsThanAKernelHasRows) {
  const auto chain = NormalOf(ReadChain(
      "q: bf16[70000,1,16]; x, y: bf16[40,16]; k = spread(x, [70000,40,16]);"
      "v = spread(y, [70000,40,16]); s = q @ k.T; p = bf16(softmax(s)); out bf16(p @ v)"));
  const auto found = FindAttention(*chain);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].problem.rows, 1);
  EXPECT_EQ(found[0].problem.batches, 70000);
}

TEST(AttentionValues, LeaveAnOperandAtStridesOfMToOthers) {
  const auto chain =
      NormalOf(ReadChain(absl::StrCat("q, x, v: bf16[M,2,40,16]; k = bf16(tanh(f32(x)));"
                                      "out k strides(640, 640*M, 16, 1);",
                                      kScores, kResult)));
  EXPECT_TRUE(FindAttention(*chain).empty());
}

// Terms of indices of batches are stored by a kernel before the one that reads them. Numbers and
// indices of rows and keys are computed.
TEST(AttentionValues, ReadConstantTermsBehindTheKernelThatStoresThem) {
  for (const auto& [steps, stored] :
       std::vector<std::pair<const char*, int>>{{"s + spread(1, s)", 0},
                                                {"s + iota([3,2,40,40], 3, f32)", 0},
                                                {"s + iota([3,2,40,40], 2, f32)", 0},
                                                {"s + iota([3,2,40,40], 1, f32)", 1}}) {
    const Chain given = WithSteps(steps);
    EXPECT_GT(ExpectComputes(given), 0) << steps;
    const auto chain = NormalOf(given);
    const ProductRuns found = FindProductRuns(*chain, 1, nullptr, {.attention = true});
    ASSERT_EQ(found.runs.size(), 1u);
    const auto graph = Got(StitchGraph::Make(*chain, 1, found.runs, {}));
    int computed = 0;
    for (const ProductOperand& operand : found.runs[0].matched.operands) {
      if (chain->op(operand.value).kind == OpKind::kInput) continue;
      ++computed;
      EXPECT_NE(chain->op(operand.value).kind, OpKind::kScalar);
      const std::vector<int>& producers = graph.vertex(graph.VertexOf(found.runs[0].end)).producers;
      EXPECT_EQ(std::count(producers.begin(), producers.end(), graph.VertexOf(operand.value)), 1);
    }
    EXPECT_EQ(computed, stored) << steps;
  }
}

// The terms that a kernel of attention reads for them.
TEST(AttentionValues, ComputeAnyElementWiseOpsOfScores) {
  constexpr char kIndices[] = "row = iota([40,40], 0, s32); column = iota([40,40], 1, s32); ";
  const std::vector<std::pair<std::string, int>> cases = {
      {"tanh(s / 5) * 5", 0},
      {"s * sigmoid(s)", 0},
      {"select(gt(s, spread(0.1, s)), s, s * 0.5)", 0},
      {"abs(s) - exp(s * 0.1)", 0},
      {"slope: f32[2,1,1]; far = f32(column - row); s + spread(spread(slope, [2,40,40]) * "
       "spread(far, [2,40,40]), s)",
       1},
      {"slope: bf16[2,1,1]; far = f32(-abs(3:s32 + row - column)); s + "
       "spread(bf16(spread(f32(slope), [2,40,40]) * spread(far, [2,40,40])), s)",
       1},
      {"select(spread(lt(abs(row - column), spread(7:s32, row)), s), s, spread(-inf, s))", 0},
      {"bias: f32[2,40,40]; pad: f32[3,1,40,40]; s + (spread(bias, s) + spread(pad, s))", 2},
      // Three matrices are added before, and read as one.
      {"a: f32[2,40,40]; b: f32[3,1,40,40]; c: f32[3,2,1,40]; s + (spread(a, s) + spread(b, s) + "
       "spread(c, s))",
       1},
      // As many elements as are read: another kernel computes them once for all rows.
      {"keys: f32[3,1,1,40]; s + spread(exp(keys), s)", 1},
      // Products of indices that f32 does not hold.
      {"s + spread(f32(row * row * row * row * column), s) * 1e-9", 1},
  };
  for (const auto& [steps, terms] : cases) {
    const Chain chain =
        WithSteps(absl::StrCat(absl::StrContains(steps, "row") ? kIndices : "", steps));
    const auto found = FindAttention(*NormalOf(chain));
    ASSERT_EQ(found.size(), 1u) << steps;
    EXPECT_EQ(found[0].problem.Terms(), terms) << steps << "\n" << found[0].problem.ToString();
    EXPECT_GT(ExpectComputes(chain), 0) << steps;
  }
}

// Two layers share what their masks and distances are made of, which no kernel stores for them.
TEST(AttentionValues, ShareNothingBetweenLayersThatEachComputes) {
  const Chain chain = ReadChain(absl::StrCat(
      kOperands,
      "slope: f32[2,1,1]; row = iota([40,40], 0, s32); column = iota([40,40], 1, s32);"
      "bias = spread(spread(slope, [2,40,40]) * spread(f32(column - row), [2,40,40]), [3,2,40,40]);"
      "p = bf16(softmax((q @ k.T) * 0.25 + bias)); q2 = bf16(p @ v);"
      "p2 = bf16(softmax((q2 @ k.T) * 0.25 + bias)); out bf16(p2 @ v)"));
  const auto planned = Got(PlanChain(*NormalOf(chain), 1, *BuiltinModel("h200"), {}));
  EXPECT_EQ(planned.chosen.kernels.size(), 2u) << planned.chosen.ToText();
  EXPECT_GT(ExpectComputes(chain), 0);
}

TEST(AttentionValues, KeepACausalMaskThatHidesWithoutTerms) {
  EXPECT_TRUE(IsCausal(WithSteps(Hidden(kLeastText))));
  const Chain biased =
      WithSteps(absl::StrCat("term: f32[40,40]; ", Hidden("-inf"), " + spread(term, s)"));
  EXPECT_TRUE(IsCausal(biased));
  EXPECT_GT(ExpectComputes(biased), 0);
}

TEST(AttentionValues, TakeACausalMaskAsAMaskWhereLaterStepsShowKeysAgain) {
  const std::string spellings[] = {
      absl::StrCat("mask: pred[3,1,40,40]; select(spread(mask, s), ", Hidden("-inf"),
                   ", spread(0, s))"),
      absl::StrCat("mask: pred[3,1,1,40]; select(spread(mask, s), spread(", kLeastText, ", s), ",
                   Hidden("-inf"), ")"),
      // Rows whose seen keys are padding spread over all.
      absl::StrCat("mask: pred[3,1,1,40]; pad = select(mask, spread(0, [3,1,1,40]), spread(",
                   kLeastText, ", [3,1,1,40])); ", Hidden(kLeastText), " + spread(pad, s)"),
      // The same mask first.
      absl::StrCat("mask: pred[3,1,1,40]; s = select(spread(mask, s), s, spread(-inf, s)); ",
                   Hidden("-1e30")),
      absl::StrCat(Hidden("-1e30"), " * 1e-30")};
  for (const std::string& steps : spellings) {
    const Chain chain = WithSteps(steps);
    EXPECT_FALSE(IsCausal(chain)) << steps;
    EXPECT_GT(ExpectComputes(chain), 0) << steps;
  }
}

// Rows whose keys are all hidden: an index below 0 for the first rows.
TEST(AttentionValues, AreZeroWhereARowSeesNoKeyAndTheChainSaysSo) {
  for (const double least_score : {kLeast, static_cast<double>(kLeastBase2Score)}) {
    const Chain chain = ReadChain(
        absl::StrCat(kOperands,
                     "mask: pred[3,1,1,40]; rows = iota([40,40], 0, s32) - 5:s32; hidden = "
                     "spread(-inf, [3,2,40,40]); s = q @ k.T;"
                     "s = select(spread(ge(rows, iota([40,40], 1, s32)), s), s, hidden);"
                     "s = select(spread(mask, s), s, hidden);",
                     BoundedResult(least_score, 1e-30)));
    const auto found = FindAttention(*NormalOf(chain));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].problem.zero_unseen);
    EXPECT_EQ(found[0].problem.zero_overflowed, least_score != kLeast);
    const auto read = AttentionProblem::FromCanonical(found[0].problem.Canonical());
    EXPECT_TRUE(read.ok() && *read == found[0].problem);
    EXPECT_GT(ExpectComputes(chain), 0);
  }
}

TEST(AttentionValues, LeaveOtherBoundsOfASoftmaxToOthers) {
  for (const auto& [least_score, least_sum] : std::vector<std::pair<double, double>>{
           {kLeast, 0}, {-1e30, 1e-30}, {kLeast, 2}, {-kInfinity, 1e-30}}) {
    const Chain chain =
        ReadChain(absl::StrCat(kOperands, "s = q @ k.T; ", BoundedResult(least_score, least_sum)));
    EXPECT_TRUE(FindAttention(*NormalOf(chain)).empty()) << least_score << " " << least_sum;
  }
}

TEST(AttentionValues, TakeNoOtherIndicesForACausalMask) {
  for (const char* condition :
       {// an index of one element is 0 in all rows
        "ge(spread(iota([1,40], 0, s32), [40,40]) + 5:s32, iota([40,40], 1, s32))",
        // half a key, and far past the last key
        "gt(iota([40,40], 0, f32) + 0.5, iota([40,40], 1, f32))",
        "gt(iota([40,40], 0, f32) + 1e30, iota([40,40], 1, f32))"}) {
    const Chain chain = WithSteps(Where(condition, "-inf"));
    EXPECT_FALSE(IsCausal(chain)) << condition;
    EXPECT_GT(ExpectComputes(chain), 0) << condition;
  }
}

}  // namespace
}  // namespace sinter
