// Plans with a kernel of attention compute their chains: where operands lie, what masks mean, and
// what is computed before.
#include "src/base/device_model.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/normal/normal_form.h"
#include "src/plan/attention_family.h"
#include "tests/support/attention_chains.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

constexpr int64_t kBatch = 3, kHeads = 2, kRows = 40, kKeys = 40, kHead = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLeast = -std::numeric_limits<float>::max();

std::shared_ptr<const Chain> NormalOf(const Chain& chain) {
  const auto form = *NormalFormOf(std::make_shared<const Chain>(chain));
  return form->chain;
}

// Attention of [batch, heads, rows, head], with steps of a test's own.
class Attention {
 public:
  ChainBuilder b;
  std::vector<Dim> scores = {C(kBatch), C(kHeads), C(kRows), C(kKeys)};

  ValueId Operand(Dim batch = C(kBatch)) {
    return *b.Input({DType::kBF16, {batch, C(kHeads), C(kKeys), C(kHead)}});
  }
  // A value that a kernel computes.
  ValueId Computed(ValueId x) {
    const ValueId wide = *b.Cast(x, DType::kF32);
    return *b.Cast(*b.Unary(UnaryKind::kTanh, wide), DType::kBF16);
  }
  ValueId Number(double number, DType dtype = DType::kF32) { return *b.Scalar(number, dtype); }
  ValueId Spread(ValueId x) { return *b.Broadcast(x, scores); }
  ValueId Index(int axis, DType dtype = DType::kS32) {
    return *b.Iota({C(kRows), C(kKeys)}, axis, dtype);
  }
  // Where a row sees a key.
  ValueId Seen() { return Spread(*b.Compare(CompareKind::kGe, Index(0), Index(1))); }
  ValueId Hidden(ValueId s, double number) { return *b.Select(Seen(), s, Spread(Number(number))); }
  ValueId Of(ValueId q, ValueId k, ValueId v, const std::function<ValueId(ValueId)>& steps) {
    const ValueId s = *b.Binary(BinaryKind::kMul, *b.Matmul(q, k, false, true), Number(0.25));
    const ValueId p = *b.Cast(*AddSoftmax(b, steps(s), -1), DType::kBF16);
    return *b.Cast(*b.Matmul(p, v), DType::kBF16);
  }
  Chain Make(const std::function<ValueId(ValueId)>& steps) {
    const ValueId q = Operand(), k = Operand(), v = Operand();
    return Finished(b, {Of(q, k, v, steps)});
  }
};

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
  Attention a;
  const ValueId q = a.Operand(), k = a.Computed(a.Operand()), v = a.Computed(a.Operand());
  constexpr int64_t kRow = kHead + 8;
  const std::vector<Stride> padded = {
      {kHeads * kKeys * kRow, 0}, {kKeys * kRow, 0}, {kRow, 0}, {1, 0}};
  ASSERT_TRUE(a.b.Output(k, {padded}).ok());
  const std::vector<Stride> turned = {
      {kHeads * kKeys * kHead, 0}, {kHead, 0}, {kHeads * kHead, 0}, {1, 0}};
  ASSERT_TRUE(a.b.Output(v, {turned}).ok());
  ASSERT_TRUE(a.b.Output(a.Of(q, k, v, [](ValueId s) { return s; })).ok());
  EXPECT_GT(ExpectComputes(*a.b.Finish()), 0);
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
  ChainBuilder b;
  const ValueId q = *b.Input({DType::kBF16, {C(70000), C(1), C(16)}});
  const auto shared = [&] {
    return *b.Broadcast(*b.Input({DType::kBF16, {C(40), C(16)}}), {C(70000), C(40), C(16)});
  };
  const ValueId s = *b.Matmul(q, shared(), false, true);
  const ValueId p = *b.Cast(*AddSoftmax(b, s, -1), DType::kBF16);
  const ValueId v = shared();
  const auto chain = NormalOf(Finished(b, {*b.Cast(*b.Matmul(p, v), DType::kBF16)}));
  const auto found = FindAttention(*chain);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].problem.rows, 1);
  EXPECT_EQ(found[0].problem.batches, 70000);
}

TEST(AttentionValues, LeaveAnOperandAtStridesOfMToOthers) {
  Attention a;
  const Dim batch = Dim::M();
  const ValueId q = a.Operand(batch), k = a.Computed(a.Operand(batch)), v = a.Operand(batch);
  const std::vector<Stride> turned = {{kKeys * kHead, 0}, {kKeys * kHead, 1}, {kHead, 0}, {1, 0}};
  ASSERT_TRUE(a.b.Output(k, {turned}).ok());
  ASSERT_TRUE(a.b.Output(a.Of(q, k, v, [](ValueId s) { return s; })).ok());
  const auto chain = NormalOf(*a.b.Finish());
  EXPECT_TRUE(FindAttention(*chain).empty());
}

// Terms that nothing but constants make are stored by a kernel before the one that reads them.
TEST(AttentionValues, ReadConstantTermsBehindTheKernelThatStoresThem) {
  for (const bool scalar : {true, false}) {
    Attention a;
    const Chain given = a.Make([&](ValueId s) {
      const ValueId term = scalar ? a.Spread(a.Number(1)) : *a.b.Iota(a.scores, 3, DType::kF32);
      return *a.b.Binary(BinaryKind::kAdd, s, term);
    });
    EXPECT_GT(ExpectComputes(given), 0) << scalar;
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
    EXPECT_EQ(computed, 1);
  }
}

TEST(AttentionValues, KeepACausalMaskThatHidesWithoutTerms) {
  Attention a;
  EXPECT_TRUE(IsCausal(a.Make([&](ValueId s) { return a.Hidden(s, kLeast); })));
  Attention b;
  const Chain biased = b.Make([&](ValueId s) {
    const ValueId term = *b.b.Input({DType::kF32, {C(kRows), C(kKeys)}});
    return *b.b.Binary(BinaryKind::kAdd, b.Hidden(s, -kInfinity), b.Spread(term));
  });
  EXPECT_TRUE(IsCausal(biased));
  EXPECT_GT(ExpectComputes(biased), 0);
}

TEST(AttentionValues, TakeACausalMaskAsAMaskWhereLaterStepsShowKeysAgain) {
  const std::vector<std::function<ValueId(Attention&, ValueId)>> spellings = {
      [](Attention& a, ValueId s) {
        const ValueId mask = *a.b.Input({DType::kPred, {C(kBatch), C(1), C(kRows), C(kKeys)}});
        return *a.b.Select(a.Spread(mask), a.Hidden(s, -kInfinity), a.Spread(a.Number(0)));
      },
      [](Attention& a, ValueId s) {
        const ValueId mask = *a.b.Input({DType::kPred, {C(kBatch), C(1), C(1), C(kKeys)}});
        return *a.b.Select(a.Spread(mask), a.Spread(a.Number(kLeast)), a.Hidden(s, -kInfinity));
      },
      [](Attention& a, ValueId s) {  // rows whose seen keys are padding spread over all
        const std::vector<Dim> keys = {C(kBatch), C(1), C(1), C(kKeys)};
        const ValueId pad =
            *a.b.Select(*a.b.Input({DType::kPred, keys}), *a.b.Broadcast(a.Number(0), keys),
                        *a.b.Broadcast(a.Number(kLeast), keys));
        return *a.b.Binary(BinaryKind::kAdd, a.Hidden(s, kLeast), a.Spread(pad));
      },
      [](Attention& a, ValueId s) {  // the same mask first
        const ValueId mask = *a.b.Input({DType::kPred, {C(kBatch), C(1), C(1), C(kKeys)}});
        s = *a.b.Select(a.Spread(mask), s, a.Spread(a.Number(-kInfinity)));
        return a.Hidden(s, -1e30);
      },
      [](Attention& a, ValueId s) {
        return *a.b.Binary(BinaryKind::kMul, a.Hidden(s, -1e30), a.Number(1e-30));
      },
  };
  for (size_t i = 0; i < spellings.size(); ++i) {
    Attention a;
    const Chain chain = a.Make([&](ValueId s) { return spellings[i](a, s); });
    EXPECT_FALSE(IsCausal(chain)) << i;
    EXPECT_GT(ExpectComputes(chain), 0) << i;
  }
}

// Rows whose keys are all hidden: an index below 0 for the first rows.
TEST(AttentionValues, AreZeroWhereARowSeesNoKeyAndTheChainSaysSo) {
  for (const double least_score : {kLeast, static_cast<double>(kLeastBase2Score)}) {
    Attention a;
    const ValueId q = a.Operand(), k = a.Operand(), v = a.Operand();
    const auto bounded = [&](ReduceKind kind, ValueId x, double least) {
      const ValueId statistic = *a.b.Reduce(kind, x, {3}, true);
      return a.Spread(*a.b.Binary(BinaryKind::kMax, statistic, a.Number(least)));
    };
    const ValueId before = *a.b.Binary(BinaryKind::kSub, a.Index(0), a.Number(5, DType::kS32));
    const ValueId seen = a.Spread(*a.b.Compare(CompareKind::kGe, before, a.Index(1)));
    const ValueId mask = a.Spread(*a.b.Input({DType::kPred, {C(kBatch), C(1), C(1), C(kKeys)}}));
    ValueId s = *a.b.Select(seen, *a.b.Matmul(q, k, false, true), a.Spread(a.Number(-kInfinity)));
    s = *a.b.Select(mask, s, a.Spread(a.Number(-kInfinity)));
    const ValueId powers =
        *a.b.Unary(UnaryKind::kExp,
                   *a.b.Binary(BinaryKind::kSub, s, bounded(ReduceKind::kMax, s, least_score)));
    const ValueId sum = bounded(ReduceKind::kSum, powers, 1e-30);
    const ValueId p = *a.b.Cast(*a.b.Binary(BinaryKind::kDiv, powers, sum), DType::kBF16);
    ASSERT_TRUE(a.b.Output(*a.b.Cast(*a.b.Matmul(p, v), DType::kBF16)).ok());
    const Chain chain = *a.b.Finish();
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
    Attention a;
    const ValueId q = a.Operand(), k = a.Operand(), v = a.Operand();
    const auto bounded = [&](ReduceKind kind, ValueId x, double least) {
      const ValueId statistic = *a.b.Reduce(kind, x, {3}, true);
      return a.Spread(*a.b.Binary(BinaryKind::kMax, statistic, a.Number(least)));
    };
    const ValueId s = *a.b.Matmul(q, k, false, true);
    const ValueId shifted =
        *a.b.Binary(BinaryKind::kSub, s, bounded(ReduceKind::kMax, s, least_score));
    const ValueId powers = *a.b.Unary(UnaryKind::kExp, shifted);
    const ValueId sum = bounded(ReduceKind::kSum, powers, least_sum);
    const ValueId p = *a.b.Cast(*a.b.Binary(BinaryKind::kDiv, powers, sum), DType::kBF16);
    ASSERT_TRUE(a.b.Output(*a.b.Cast(*a.b.Matmul(p, v), DType::kBF16)).ok());
    EXPECT_TRUE(FindAttention(*NormalOf(*a.b.Finish())).empty()) << least_score << " " << least_sum;
  }
}

TEST(AttentionValues, TakeNoOtherIndicesForACausalMask) {
  const std::vector<std::function<ValueId(Attention&)>> conditions = {
      [](Attention& a) {  // an index of one element is 0 in all rows
        const ValueId row =
            *a.b.Broadcast(*a.b.Iota({C(1), C(kKeys)}, 0, DType::kS32), {C(kRows), C(kKeys)});
        const ValueId shifted = *a.b.Binary(BinaryKind::kAdd, row, a.Number(5, DType::kS32));
        return *a.b.Compare(CompareKind::kGe, shifted, a.Index(1));
      },
      [](Attention& a) {  // half a key
        const ValueId row = *a.b.Binary(BinaryKind::kAdd, a.Index(0, DType::kF32), a.Number(0.5));
        return *a.b.Compare(CompareKind::kGt, row, a.Index(1, DType::kF32));
      },
      [](Attention& a) {  // far past the last key
        const ValueId row = *a.b.Binary(BinaryKind::kAdd, a.Index(0, DType::kF32), a.Number(1e30));
        return *a.b.Compare(CompareKind::kGt, row, a.Index(1, DType::kF32));
      },
  };
  for (size_t i = 0; i < conditions.size(); ++i) {
    Attention a;
    const Chain chain = a.Make([&](ValueId s) {
      return *a.b.Select(a.Spread(conditions[i](a)), s, a.Spread(a.Number(-kInfinity)));
    });
    EXPECT_FALSE(IsCausal(chain)) << i;
    EXPECT_GT(ExpectComputes(chain), 0) << i;
  }
}

}  // namespace
}  // namespace sinter
