// Mixtures of experts as chains of the ops that are there: by ends, with what servers ask of a
// gated FFN, from a router's logits to the next norm. Each plans in the kernels that docs/chains.md
// says.
#include "src/reference/reference.h"
#include "tests/support/chains.h"
#include "tests/unit/fusion/grouped_plans.h"

namespace sinter {
namespace {

using testing::ExpectPlans;
using testing::GroupedOf;
using testing::TextChain;

constexpr int64_t kK = 16, kHalf = 24, kExperts = 8, kTop = 2;

// What adds of these tests share: no add fails.
struct Adds {
  ChainBuilder b;

  ValueId Rows(int64_t columns, DType dtype = DType::kBF16) {
    return *b.Input({dtype, {Dim::M(), C(columns)}});
  }
  ValueId Constant(const std::vector<Dim>& dims, DType dtype = DType::kBF16) {
    return *b.Input({dtype, dims}, {true, {}, ""});
  }
  ValueId Binary(BinaryKind kind, ValueId x, ValueId y) { return *b.Binary(kind, x, y); }
  ValueId Spread(ValueId x, ValueId like) {
    return *b.Broadcast(x, std::vector<Dim>(b.TypeOf(like).dims));
  }
  ValueId Wide(ValueId x) { return *b.Cast(x, DType::kF32); }
  // The sum of each row's numbers; keeps the axis.
  ValueId Sum(ValueId x) { return *b.Reduce(ReduceKind::kSum, x, {b.TypeOf(x).rank() - 1}, true); }
  ValueId Of(ValueId x, ValueId ids) { return *b.Gather(x, ids, -1); }
  ValueId Shares(ValueId x) { return Binary(BinaryKind::kDiv, x, Spread(Sum(x), x)); }

  // The experts' FFN of `ids` and `weights`.
  ValueId Experts(ValueId x, ValueId ids, ValueId weights, int64_t experts = kExperts) {
    const ValueId w1 = Constant({C(experts), C(2 * kHalf), C(kK)});
    const ValueId w2 = Constant({C(experts), C(kK), C(kHalf)});
    return *AddGroupedGatedFfn(b, {x, ids, weights, w1, w2}, {Activation::kSilu});
  }
  Plan Plans(ValueId y, bool computed = true) { return ExpectPlans(Finished(b, {y}), computed); }
};

struct Routed {
  ValueId ids, weights;
};

// Mixtral, Qwen3: the shares of the largest probabilities.
Routed BySoftmax(Adds& a, ValueId logits) {
  const ValueId p = *AddSoftmax(a.b, logits, -1);
  const ValueId ids = *a.b.TopK(p, kTop);
  return {ids, a.Shares(a.Of(p, ids))};
}

// gpt-oss: a softmax of the largest logits.
Routed BySoftmaxOfChosen(Adds& a, ValueId logits) {
  const ValueId ids = *a.b.TopK(logits, kTop);
  return {ids, *AddSoftmax(a.b, a.Of(logits, ids), -1)};
}

// DeepSeek-V3, GLM: chosen by sigmoid + bias, of `groups` groups the `kept` ones whose two best sum
// to most; weights without the bias, scaled.
Routed BySigmoid(Adds& a, ValueId logits, int64_t groups, int64_t kept) {
  const ValueId s = *a.b.Unary(UnaryKind::kSigmoid, logits);
  const ValueId bias = a.Constant({C(kExperts)}, DType::kF32);
  ValueId choice = a.Binary(BinaryKind::kAdd, s, a.Spread(bias, s));
  if (groups > 1) {
    const std::vector<Dim> parts = {Dim::M(), C(groups), C(kExperts / groups)};
    const ValueId grouped = *a.b.Reshape(choice, parts);
    const ValueId least = *a.b.Scalar(-std::numeric_limits<double>::infinity());
    // The two best of each group: the largest, and the largest after its first occurrence is
    // removed.
    const ValueId most = *a.b.Reduce(ReduceKind::kMax, grouped, {2}, true);
    const ValueId places = *a.b.Iota(parts, 2, DType::kS32);
    const ValueId equal = *a.b.Compare(CompareKind::kEq, grouped, a.Spread(most, grouped));
    const ValueId of_most = *a.b.Select(equal, places, *a.b.Scalar(kExperts, DType::kS32));
    const ValueId first = *a.b.Reduce(ReduceKind::kMin, of_most, {2}, true);
    const ValueId is_first = *a.b.Compare(CompareKind::kEq, places, a.Spread(first, places));
    const ValueId others = *a.b.Select(is_first, least, grouped);
    const ValueId second = *a.b.Reduce(ReduceKind::kMax, others, {2}, true);
    const ValueId scores =
        *a.b.Reshape(a.Binary(BinaryKind::kAdd, most, second), {Dim::M(), C(groups)});
    const ValueId chosen = *a.b.TopK(scores, kept);
    // Whether group g is one of them.
    const std::vector<Dim> pairs = {Dim::M(), C(groups), C(kept)};
    const ValueId of_chosen =
        *a.b.Broadcast(*a.b.Reshape(chosen, {Dim::M(), C(1), C(kept)}), pairs);
    const ValueId same =
        *a.b.Compare(CompareKind::kEq, *a.b.Iota(pairs, 1, DType::kS32), of_chosen);
    const ValueId hits = *a.b.Reduce(ReduceKind::kSum, *a.b.Cast(same, DType::kS32), {2}, true);
    const ValueId kept_groups = *a.b.Compare(CompareKind::kGt, hits, *a.b.Scalar(0, DType::kS32));
    const ValueId masked = *a.b.Select(*a.b.Broadcast(kept_groups, parts), grouped, least);
    choice = *a.b.Reshape(masked, {Dim::M(), C(kExperts)});
  }
  const ValueId ids = *a.b.TopK(choice, kTop);
  const ValueId weights = a.Shares(a.Of(s, ids));
  return {ids, a.Binary(BinaryKind::kMul, weights, *a.b.Scalar(2.5))};
}

std::vector<std::pair<const char*, Routed (*)(Adds&, ValueId)>> Routers() {
  return {{"softmax", BySoftmax},
          {"softmax of the chosen", BySoftmaxOfChosen},
          {"sigmoid with a bias", [](Adds& a, ValueId x) { return BySigmoid(a, x, 1, 1); }},
          {"sigmoid with groups", [](Adds& a, ValueId x) { return BySigmoid(a, x, 4, 2); }}};
}

TEST(ExpertsByEnds, APairItsWeightsAndItsCastAreOneKernel) {
  for (const bool on_sums : {false, true}) {
    Adds a;
    const ValueId x = a.Rows(kK), ends = *a.b.Input({DType::kS32, {C(kExperts)}});
    const ValueId weights = *a.b.Input({DType::kF32, {Dim::M(), C(1)}});
    const ValueId w = a.Constant({C(kExperts), C(2 * kHalf), C(kK)});
    ValueId y = *a.b.GroupedMatmulByEnds(x, w, ends, true);
    if (on_sums) y = a.Binary(BinaryKind::kMul, y, a.Spread(weights, y));
    const ValueId gate = *a.b.Slice(y, {0, 0}, {Dim::M(), C(kHalf)});
    y = *AddSwiglu(a.b, gate, *a.b.Slice(y, {0, kHalf}, {Dim::M(), C(2 * kHalf)}));
    if (!on_sums) y = a.Binary(BinaryKind::kMul, y, a.Spread(weights, y));
    const Plan plan = a.Plans(*a.b.Cast(y, DType::kBF16));
    ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    ASSERT_EQ(GroupedOf(plan).size(), 1u);
    const GroupedProduct& p = GroupedOf(plan)[0]->code.problem;
    EXPECT_TRUE(p.by_ends);
    EXPECT_EQ(p.pair, GroupedPair::kHalves);
    EXPECT_TRUE(p.Reads(LeafKind::kRow));
    EXPECT_EQ(p.result, DType::kBF16);
    EXPECT_NE(GroupedOf(plan)[0]->code.schedule.ToString(false), "dots") << "tensor cores take it";
  }
}

TEST(ExpertsByEnds, EveryTypeAndLayoutIsOneKernel) {
  for (const char* form : {"", " layout=io", " dtype=f16", " dtype=f32", " dtype=f32 layout=io"}) {
    const Plan plan =
        ExpectPlans(TextChain(std::string("grouped_matmul_ends m=M experts=5 n=24 k=16") + form));
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    ASSERT_EQ(GroupedOf(plan).size(), 1u);
    EXPECT_TRUE(GroupedOf(plan)[0]->code.problem.by_ends);
  }
}

// Rows of a launch that is cut count on; ends stay as they are.
TEST(ExpertsByEnds, LaunchesTakeAnyNumberOfRows) {
  const Plan plan = ExpectPlans(TextChain("grouped_matmul_ends m=M experts=5 n=24 k=16"));
  const KernelSpec& spec = plan.kernels[0].spec;
  EXPECT_FALSE(spec.family->MixesRows(spec));
  const LaunchRecipe recipe = *RecipeOf(spec);
  EXPECT_EQ(recipe.args[2].int_value, 0) << "ends";
  EXPECT_GT(recipe.args[0].int_value, 0) << "rows";
  EXPECT_EQ(recipe.args.back().kind, ArgKind::kFirstRow);
}

// With every option of servers there are two products and the sum over slots.
TEST(ExpertsOfServers, OptionsCostNoKernel) {
  for (const char* keys :
       {"order=interleaved", "order=interleaved alpha=1.702 beta=1 limit=7 bias1=1 bias2=1",
        "limit=7", "weight=input", "bias1=1 bias2=1", "order=up_gate layout=io limit=10",
        "order=interleaved layout=io alpha=1.702 beta=1 limit=7 bias1=1 bias2=1 dtype=f16"}) {
    SCOPED_TRACE(keys);
    const Plan plan = ExpectPlans(TextChain(
        std::string("grouped_gated_ffn m=M experts=5 top=3 n=24 k=16 l=40 act=silu ") + keys));
    EXPECT_EQ(plan.kernels.size(), 3u) << plan.ToText();
    EXPECT_EQ(GroupedOf(plan).size(), 2u);
  }
}

// Experts of this GPU: of a global id the place in `map`, which is -1 where it has none. A gather
// gives 0 for an id outside, so the map is raised by one.
TEST(ExpertsOfServers, AnExpertMapIsOneKernelForBothProducts) {
  Adds a;
  const ValueId x = a.Rows(kK), weights = a.Rows(kTop, DType::kF32);
  const ValueId ids = *a.b.Input({DType::kS32, {Dim::M(), C(kTop)}});
  const ValueId map = *a.b.Input({DType::kS32, {C(4 * kExperts)}}, {true, {}, ""});
  const ValueId one = *a.b.Scalar(1, DType::kS32);
  const ValueId raised = *a.b.Gather(a.Binary(BinaryKind::kAdd, map, one), ids);
  const Plan plan = a.Plans(a.Experts(x, a.Binary(BinaryKind::kSub, raised, one), weights));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
}

// Shared experts of the routed ones' width are stored after them, and are every row's last slots.
TEST(ExpertsOfServers, SharedExpertsAreSlotsOfTheRouterKernel) {
  Adds a;
  const ValueId x = a.Rows(kK), logits = a.Rows(kExperts, DType::kF32);
  const Routed routed = BySoftmax(a, logits);
  const std::vector<Dim> one = {Dim::M(), C(1)};
  const ValueId shared = *a.b.Broadcast(*a.b.Scalar(kExperts, DType::kS32), one);
  const ValueId ids = *a.b.Concat({routed.ids, shared}, 1);
  const ValueId weights = *a.b.Concat({routed.weights, *a.b.Broadcast(*a.b.Scalar(1), one)}, 1);
  const Plan plan = a.Plans(a.Experts(x, ids, weights, kExperts + 1));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
}

// A shared expert of another width is a dense FFN, which joins the sum.
TEST(ExpertsOfServers, ASharedExpertOfAnotherWidthIsAnFfnBeside) {
  Adds a;
  const ValueId x = a.Rows(kK), weights = a.Rows(kTop, DType::kF32);
  const ValueId ids = *a.b.Input({DType::kS32, {Dim::M(), C(kTop)}});
  const ValueId experts = a.Experts(x, ids, weights);
  const ValueId shared = *AddGatedFfn(a.b,
                                      {.a = x,
                                       .w_gate = a.Constant({C(64), C(kK)}),
                                       .w_up = a.Constant({C(64), C(kK)}),
                                       .w_down = a.Constant({C(kK), C(64)})},
                                      Activation::kSilu, Layout::kOI);
  const ValueId sum = a.Binary(BinaryKind::kAdd, a.Wide(experts), a.Wide(shared));
  const Plan plan = a.Plans(*a.b.Cast(sum, DType::kBF16));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_LE(plan.kernels.size(), 5u) << plan.ToText();
}

// Everything that a router computes from its logits is one kernel.
TEST(ExpertsRouters, AreOneKernelBehindTheirLogits) {
  for (const auto& [name, route] : Routers()) {
    SCOPED_TRACE(name);
    Adds a;
    const ValueId logits = a.Rows(kExperts, DType::kF32);
    const Routed routed = route(a, logits);
    EXPECT_TRUE(a.b.Output(routed.ids).ok());
    // Groups whose f32 sums are equal and whose f64 sums are not are chosen by other rounding.
    const Plan plan = a.Plans(routed.weights, route != Routers().back().second);
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
  }
}

// As DeepSeek-V3's modeling code does it, in loops.
TEST(ExpertsRouters, TheOneWithGroupsChoosesAsDeepSeekDoes) {
  constexpr int64_t kRows = 40, kGroups = 4, kKept = 2, kOfGroup = kExperts / kGroups;
  Adds a;
  const Routed routed = BySigmoid(a, a.Rows(kExperts, DType::kF32), kGroups, kKept);
  ASSERT_TRUE(a.b.Output(routed.ids).ok());
  ASSERT_TRUE(a.b.Output(routed.weights).ok());
  const Chain chain = *a.b.Finish();
  std::vector<float> logits, bias;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-3, 3);
  for (int64_t i = 0; i < kRows * kExperts; ++i) logits.push_back(draw(random));
  for (int64_t i = 0; i < kExperts; ++i) bias.push_back(draw(random) / 10);
  std::vector<const void*> inputs;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    inputs.push_back(chain.input_op(i).constant ? bias.data() : logits.data());
  }
  const auto outputs = Got(RunReferenceF64(chain, kRows, inputs));
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double> s, scores(kGroups);
    for (int64_t e = 0; e < kExperts; ++e)
      s.push_back(1 / (1 + std::exp(-logits[row * kExperts + e])));
    const auto choice = [&](int64_t e) { return s[e] + bias[e]; };
    const auto best = [](int64_t count, int64_t most, const auto& of) {
      std::vector<int64_t> places(count);
      std::iota(places.begin(), places.end(), 0);
      std::stable_sort(places.begin(), places.end(),
                       [&](int64_t i, int64_t j) { return of(i) > of(j); });
      places.resize(most);
      return places;
    };
    for (int64_t g = 0; g < kGroups; ++g) {
      for (const int64_t e : best(kOfGroup, 2, [&](int64_t i) { return choice(g * kOfGroup + i); }))
        scores[g] += choice(g * kOfGroup + e);
    }
    const auto kept = best(kGroups, kKept, [&](int64_t g) { return scores[g]; });
    const auto ids = best(kExperts, kTop, [&](int64_t e) {
      const bool in = std::find(kept.begin(), kept.end(), e / kOfGroup) != kept.end();
      return in ? choice(e) : -std::numeric_limits<double>::infinity();
    });
    const double sum = s[ids[0]] + s[ids[1]];
    for (int64_t t = 0; t < kTop; ++t) {
      EXPECT_EQ(outputs[0][row * kTop + t], ids[t]) << row;
      EXPECT_NEAR(outputs[1][row * kTop + t], 2.5 * s[ids[t]] / sum, 1e-6) << row;
    }
  }
}

// Logits to the next norm: the router, two products, and the sum over slots with residual and norm.
TEST(ExpertsRouters, ToTheNextNormAreFourKernels) {
  for (const auto& [name, route] : Routers()) {
    SCOPED_TRACE(name);
    Adds a;
    const ValueId x = a.Rows(kK), logits = a.Rows(kExperts, DType::kF32);
    const ValueId residual = a.Rows(kK), gamma = a.Constant({C(kK)});
    const Routed routed = route(a, logits);
    const ValueId y = a.Experts(x, routed.ids, routed.weights);
    const ValueId sum =
        *a.b.Cast(a.Binary(BinaryKind::kAdd, a.Wide(residual), a.Wide(y)), DType::kBF16);
    EXPECT_TRUE(a.b.Output(sum).ok());
    const Plan plan = a.Plans(*a.b.Cast(*AddRmsNorm(a.b, a.Wide(sum), 1e-6, gamma), DType::kBF16));
    EXPECT_EQ(GroupedOf(plan).size(), 2u);
    EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
  }
}

// With the product that gives the logits, and with the norm of the layer before, there is one more
// each at most.
TEST(ExpertsRouters, FromTheRowsAreFiveKernels) {
  Adds a;
  const ValueId x = a.Rows(kK), gate = a.Constant({C(kExperts), C(kK)});
  const ValueId residual = a.Rows(kK), gamma = a.Constant({C(kK)});
  const Routed routed = BySoftmax(a, *a.b.Matmul(x, gate, false, true));
  const ValueId y = a.Experts(x, routed.ids, routed.weights);
  const ValueId sum =
      *a.b.Cast(a.Binary(BinaryKind::kAdd, a.Wide(residual), a.Wide(y)), DType::kBF16);
  EXPECT_TRUE(a.b.Output(sum).ok());
  const Plan plan = a.Plans(*a.b.Cast(*AddRmsNorm(a.b, a.Wide(sum), 1e-6, gamma), DType::kBF16));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_LE(plan.kernels.size(), 5u) << plan.ToText();
}

}  // namespace
}  // namespace sinter
