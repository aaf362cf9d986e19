// Mixtures of experts as chains of the ops that are there: by ends, with what servers ask of a
// gated FFN, from a router's logits to the next norm. docs/experts.md says in how many kernels each
// is planned.
#include "src/reference/reference.h"
#include "tests/unit/fusion/grouped_plans.h"

namespace sinter {
namespace {

using testing::ChainOfLine;
using testing::ExpectPlans;
using testing::GroupedOf;

constexpr int64_t kExperts = 8, kTop = 2;

// Statements that make ids and weights of logits, by the routers' names.
const std::pair<const char*, const char*> kRouters[] = {
    // Mixtral, Qwen3: the shares of the largest probabilities.
    {"softmax",
     "p = softmax(logits); ids = topk(p, 2); chosen = gather(p, ids, -1);"
     "weights = chosen / spread(sum(chosen, 1, keep), chosen)"},
    // gpt-oss: a softmax of the largest logits.
    {"softmax of the chosen", "ids = topk(logits, 2); weights = softmax(gather(logits, ids, -1))"},
    // DeepSeek-V3, GLM: chosen by sigmoid + bias; weights without the bias, scaled.
    {"sigmoid with a bias",
     "s = sigmoid(logits); bias: const f32[8]; ids = topk(s + spread(bias, s), 2);"
     "chosen = gather(s, ids, -1); weights = chosen / spread(sum(chosen, 1, keep), chosen) * 2.5"},
    // The same of four groups the two whose two best sum to most. The second best is the largest
    // after the first occurrence of the best is removed.
    {"sigmoid with groups",
     "s = sigmoid(logits); bias: const f32[8]; choice = reshape(s + spread(bias, s), [M,4,2]);"
     "most = reduce_max(choice, 2, keep); places = iota([M,4,2], 2, s32);"
     "of_most = select(eq(choice, spread(most, choice)), places, 8:s32);"
     "first = reduce_min(of_most, 2, keep);"
     "others = select(eq(places, spread(first, places)), -inf, choice);"
     "best = topk(reshape(most + reduce_max(others, 2, keep), [M,4]), 2);"
     "of_best = spread(reshape(best, [M,1,2]), [M,4,2]);"
     "hits = sum(s32(eq(iota([M,4,2], 1, s32), of_best)), 2, keep);"
     "kept = select(spread(gt(hits, 0:s32), choice), choice, -inf);"
     "ids = topk(reshape(kept, [M,8]), 2); chosen = gather(s, ids, -1);"
     "weights = chosen / spread(sum(chosen, 1, keep), chosen) * 2.5"}};

// Statements that make y of rows x by the FFNs of experts.
std::string Experts(const char* ids, const char* weights, int64_t experts = kExperts) {
  return absl::Substitute(
      "w1: const bf16[$2,48,16]; w2: const bf16[$2,16,24];"
      "y = grouped_gated_ffn(x, $0, $1, w1, w2, act=silu)",
      ids, weights, experts);
}

// Its residual and the next layer's norm.
constexpr char kNextNorm[] =
    "sum = bf16(f32(residual) + f32(y)); out sum, bf16(rmsnorm(f32(sum), 1e-6, gamma))";

TEST(ExpertsByEnds, APairItsWeightsAndItsCastAreOneKernel) {
  for (const bool on_sums : {false, true}) {
    constexpr char kWeigh[] = "y = y * spread(weights, y)",
                   kPair[] = "y = swiglu(y[:, 0:24], y[:, 24:48])";
    const Plan plan = ExpectPlans(
        ReadChain("x: bf16[M,16]; ends: s32[8]; weights: f32[M,1]; w: const bf16[8,48,16];"
                  "y = grouped_by_ends(x, w.T, ends); $0; $1; out bf16(y)",
                  on_sums ? kWeigh : kPair, on_sums ? kPair : kWeigh));
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
        ExpectPlans(ChainOfLine(std::string("grouped_matmul_ends m=M experts=5 n=24 k=16") + form));
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
    ASSERT_EQ(GroupedOf(plan).size(), 1u);
    EXPECT_TRUE(GroupedOf(plan)[0]->code.problem.by_ends);
  }
}

// Rows of a launch that is cut count on; ends stay as they are.
TEST(ExpertsByEnds, LaunchesTakeAnyNumberOfRows) {
  const Plan plan = ExpectPlans(ChainOfLine("grouped_matmul_ends m=M experts=5 n=24 k=16"));
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
    const Plan plan = ExpectPlans(ChainOfLine(
        std::string("grouped_gated_ffn m=M experts=5 top=3 n=24 k=16 l=40 act=silu ") + keys));
    EXPECT_EQ(plan.kernels.size(), 3u) << plan.ToText();
    EXPECT_EQ(GroupedOf(plan).size(), 2u);
  }
}

// Experts of this GPU: of a global id the place in `map`, which is -1 where it has none. A gather
// gives 0 for an id outside, so the map is raised by one.
TEST(ExpertsOfServers, AnExpertMapIsOneKernelForBothProducts) {
  const Plan plan =
      ExpectPlans(ReadChain("x: bf16[M,16]; weights: f32[M,2]; ids: s32[M,2]; map: const s32[32];"
                            "local = gather(map + 1:s32, ids) - 1:s32; $0; out y",
                            Experts("local", "weights")));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
}

// Shared experts of the routed ones' width are stored after them, and are every row's last slots.
TEST(ExpertsOfServers, SharedExpertsAreSlotsOfTheRouterKernel) {
  const Plan plan = ExpectPlans(
      ReadChain("x: bf16[M,16]; logits: f32[M,8]; $0; shared = spread(8:s32, [M,1]);"
                "all = concat(ids, shared, 1); factors = concat(weights, spread(1, [M,1]), 1);"
                "$1; out y",
                kRouters[0].second, Experts("all", "factors", kExperts + 1)));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
}

// A shared expert of another width is a dense FFN, which joins the sum.
TEST(ExpertsOfServers, ASharedExpertOfAnotherWidthIsAnFfnBeside) {
  const Plan plan = ExpectPlans(ReadChain(
      "x: bf16[M,16]; weights: f32[M,2]; ids: s32[M,2]; $0; gate, up: const bf16[64,16];"
      "down: const bf16[16,64]; shared = gated_ffn(x, gate, up, none, none, down, none, silu);"
      "out bf16(f32(y) + f32(shared))",
      Experts("ids", "weights")));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_LE(plan.kernels.size(), 5u) << plan.ToText();
}

// Everything that a router computes from its logits is one kernel.
TEST(ExpertsRouters, AreOneKernelBehindTheirLogits) {
  for (const auto& [name, route] : kRouters) {
    SCOPED_TRACE(name);
    // Groups whose f32 sums are equal and whose f64 sums are not are chosen by other rounding.
    const Plan plan = ExpectPlans(ReadChain("logits: f32[M,8]; $0; out ids, weights", route),
                                  route != std::end(kRouters)[-1].second);
    EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
  }
}

// As DeepSeek-V3's modeling code does it, in loops.
TEST(ExpertsRouters, TheOneWithGroupsChoosesAsDeepSeekDoes) {
  constexpr int64_t kRows = 40, kGroups = 4, kKept = 2, kOfGroup = kExperts / kGroups;
  const Chain chain =
      ReadChain("logits: f32[M,8]; $0; out ids, weights", std::end(kRouters)[-1].second);
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
  for (const auto& [name, route] : kRouters) {
    SCOPED_TRACE(name);
    const Plan plan = ExpectPlans(
        ReadChain("x: bf16[M,16]; logits: f32[M,8]; residual: bf16[M,16]; gamma: const bf16[16];"
                  "$0; $1; $2",
                  route, Experts("ids", "weights"), kNextNorm));
    EXPECT_EQ(GroupedOf(plan).size(), 2u);
    EXPECT_EQ(plan.kernels.size(), 4u) << plan.ToText();
  }
}

// With the product that gives the logits, and with the norm of the layer before, there is one more
// each at most.
TEST(ExpertsRouters, FromTheRowsAreFiveKernels) {
  const Plan plan =
      ExpectPlans(ReadChain("x: bf16[M,16]; gate: const bf16[8,16]; residual: bf16[M,16];"
                            "gamma: const bf16[16]; logits = x @ gate.T; $0; $1; $2",
                            kRouters[0].second, Experts("ids", "weights"), kNextNorm));
  EXPECT_EQ(GroupedOf(plan).size(), 2u);
  EXPECT_LE(plan.kernels.size(), 5u) << plan.ToText();
}

}  // namespace
}  // namespace sinter
