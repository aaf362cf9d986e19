// Complete plans: kernels, operands, workspace, results; mixed graphs; what is refused.
#include "src/normal/normal_form.h"
#include "tests/support/drawn.h"
#include "tests/support/named_graphs.h"
#include "tests/support/sequences.h"
#include "tests/unit/fusion/fusion_tests.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter {
namespace {

std::vector<Plan> EveryPlan(const FusionResult& r) {
  std::vector<Plan> plans = {r.chosen};
  plans.insert(plans.end(), r.alternatives.begin(), r.alternatives.end());
  return plans;
}

FusionResult PlansOf(const Chain& chain, int64_t bucket, const FusionOptions& options = {}) {
  return Got(PlanChain(chain, bucket, H200(), options));
}

// Every plan of each graph of that name computes it, within `bound`.
void ExpectAllCompute(const char* graphs, int64_t bucket, double bound) {
  for (const testing::NamedGraph& graph : testing::GraphsIn(graphs)) {
    for (const Plan& plan : EveryPlan(PlansOf(graph.chain, bucket))) {
      EXPECT_LT(testing::WorstError(graph.chain, plan, std::max<int64_t>(graph.m, 1), 3), bound)
          << graph.name << " " << plan.name();
    }
  }
}

const Plan* Unfused(const FusionResult& result) {
  if (!result.chosen.fused) return &result.chosen;
  for (const Plan& plan : result.alternatives) {
    if (!plan.fused) return &plan;
  }
  return nullptr;
}

// Kernels of so many products; 0: stitched kernels.
int Kernels(const Plan& plan, int products) {
  int count = 0;
  for (const PlannedKernel& k : plan.kernels)
    count += ProductOf(k.spec).sequence.size() == products;
  return count;
}

// rmsnorm, gated FFN, residual. `rounds`: the FFN's result before the sum; `in_place`: the result
// takes the place of x.
Chain NormFfnResidual(int64_t k, int64_t n, bool rounds = true, bool in_place = false) {
  return ReadChain(
      "x: bf16[M,$0]; gamma: const bf16[$0]; gate, up: const bf16[$1,$0]; down: const bf16[$0,$1];"
      "a = bf16(rmsnorm(x, 1e-6, f32(gamma))); c = linear(a, gate, none, silu) * linear(a, up, "
      "none); y = linear(c, down, none); out bf16($2 + f32(x)) $3",
      k, n, rounds ? "f32(bf16(y))" : "y", in_place ? "over x" : "");
}

// A GEMM kernel stores its result once. A result that is output twice is stored by a stitched
// kernel, or refused if that kernel has nothing to compute.
TEST(StitchPlans, OfAProductThatIsGivenOutTwiceStoreBoth) {
  for (const bool rounds : {false, true}) {
    const Chain chain = ReadChain("w: const bf16[32,64]; x: bf16[M,64]; y = $0(x @ w.T); out y, y",
                                  rounds ? "bf16" : "");
    const absl::StatusOr<FusionResult> result = PlanChain(chain, 16, H200(), {});
    ASSERT_EQ(result.ok(), rounds) << result.status();
    if (!rounds) {
      EXPECT_TRUE(Says(result, "make the other outputs copies"));
      continue;
    }
    for (const Plan& plan : EveryPlan(*result)) {
      EXPECT_LT(testing::WorstError(chain, plan, 9, 1), 1e-2) << plan.ToText();
    }
  }
}

TEST(StitchPlans, EveryPlanOfEveryKindComputesTheChain) {
  const char* lines[] = {"layernorm rows=M cols=96",
                         "rmsnorm rows=M cols=37 affine=0",
                         "softmax rows=M cols=200 scale=0.125",
                         "masked_softmax rows=M cols=64 mask=row",
                         "bias_gelu_residual_layernorm rows=M cols=128",
                         "residual_rmsnorm rows=M cols=64",
                         "gelu rows=M cols=48 form=erf",
                         "swiglu rows=M cols=40",
                         "rope rows=M heads=4 dim=16",
                         "lstm_cell rows=M hidden=24",
                         "gru_cell rows=M hidden=36"};
  for (const char* line : lines) {
    const Chain chain = ParseProblem(line)->chain;
    const FusionResult result = PlansOf(chain, 32);
    EXPECT_EQ(result.chosen.kernels.size(), 1u) << line;
    EXPECT_NE(Unfused(result), nullptr) << line;
    for (const Plan& plan : EveryPlan(result)) {
      EXPECT_LT(testing::WorstError(chain, plan, 29, 1), 0.02) << line << " " << plan.name();
    }
  }
}

TEST(StitchPlans, AFoldedBatchNormIsInTheKernelOfItsConvolution) {
  for (const char* residual : {"none", "before", "behind"}) {
    const Chain chain =
        ParseProblem(absl::StrCat("conv b=M ic=16 h=5 w=4 oc=40 k=3 act=relu scale=1 bias=1 "
                                  "residual=",
                                  residual))
            ->chain;
    const FusionResult result = PlansOf(chain, 8);
    EXPECT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.ToText();
    EXPECT_EQ(Kernels(result.chosen, 1), 1) << result.chosen.ToText();
    for (const Plan& plan : EveryPlan(result)) {
      EXPECT_LT(testing::WorstError(chain, plan, 7, 1), 0.02) << plan.ToText();
    }
  }
}

// A quarter of them in an everyday run, which the commit draws.
TEST(StitchPlans, RandomGraphsAreComputedAndNeverPredictedSlowerThanUnfused) {
  double saved = 0;
  int graphs = 0;
  size_t kernels = 0, unfused_kernels = 0;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    if (!IsDrawn(seed, 4)) continue;
    ++graphs;
    const Chain chain = testing::RandomDag(seed, 20 + static_cast<int>(seed) * 3, 48, 40);
    const FusionResult result = PlansOf(chain, 1);
    const Plan* unfused = Unfused(result);
    ASSERT_NE(unfused, nullptr) << seed;
    EXPECT_LE(result.chosen.PredictedUs(), unfused->PredictedUs()) << seed;
    saved += unfused->PredictedUs() / result.chosen.PredictedUs();
    kernels += result.chosen.kernels.size();
    unfused_kernels += unfused->kernels.size();
    EXPECT_LT(testing::WorstError(chain, result.chosen, 1, seed), 1e-4) << seed;
    EXPECT_LT(testing::WorstError(chain, *unfused, 1, seed), 1e-4) << seed;
  }
  std::printf("%d random graphs: %zu kernels for %zu, %.2f times faster by prediction\n", graphs,
              kernels, unfused_kernels, saved / graphs);
}

TEST(StitchPlans, ThereIsAlwaysAPlanThatIsNamedUnfused) {
  // One op: the fused and the unfused plan are one.
  EXPECT_FALSE(PlansOf(ReadChain("x: f32[64,64]; out tanh(x)"), 1).chosen.fused);
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; seed += 3) {
    const auto plans = PlanChain(testing::MakeRandomStitchGraph(seed), 1, H200(), {});
    if (plans.ok()) {
      EXPECT_NE(Unfused(*plans), nullptr) << seed;
    }
  }
}

TEST(StitchPlans, LongReductionsOverTheMiddleAreRowsOfAView) {
  for (const char* outputs :
       {"sums = sum(tanh(x), 1, keep); out sums, spread(sums, x) * x", "out sum(tanh(x), 1)"}) {
    const Chain chain = ReadChain("x: f32[4,5000,6]; $0", outputs);
    const FusionResult result = PlansOf(chain, 1);
    for (const Plan& plan : EveryPlan(result)) {
      EXPECT_LT(testing::WorstError(chain, plan, 1, 11), 1e-4) << plan.name();
    }
  }
}

// Outputs of concatenations are written once for each of their parts: compilers take a minute for a
// recurrence of some hundred ops.
TEST(StitchPlans, KernelsAreNoLongerThanCompilersTake) {
  ChainReader r("h: f32[64,96]");
  for (int step = 0; step < 24; ++step) {
    for (int i = 0; i < 8; ++i) r.Add("h = tanh(h)");
    r.Add("out concat(h, exp(h), 1)");
  }
  const Chain chain = r.Finish();
  const FusionResult result = PlansOf(chain, 1);
  EXPECT_GT(result.chosen.kernels.size(), 1u);
  for (const Plan& plan : EveryPlan(result)) {
    EXPECT_LT(testing::WorstError(chain, plan, 1, 5), 1e-4) << plan.name();
    for (const PlannedKernel& k : plan.kernels) {
      const Chain& body = StitchOf(k.spec)->body;
      size_t concatenations = 0;
      for (const Op& op : body.ops()) concatenations += op.kind == OpKind::kConcat;
      EXPECT_LE(body.ops().size() * (1 + concatenations), 2000u) << plan.name();
    }
  }
}

// Sums over every element, and over M with others, in all blocks; up to 64 tensors side by side.
TEST(StitchPlans, ReductionsOverEverythingTakeAsLongAsTheirBytes) {
  constexpr int64_t kRows = 48, kManyRows = 8192;
  const std::pair<const char*, const char*> cases[] = {
      {"M", "0"}, {"M,64", "0, 1"}, {"M,16,16", "0, 2"}, {"40,56", "0, 1"}};
  for (const auto& [dims, axes] : cases) {
    const Chain chain = ReadChain("x: f32[$0]; out sum(x, $1), reduce_max(x, $1)", dims, axes);
    for (const Plan& plan : EveryPlan(PlansOf(chain, 64))) {
      EXPECT_LT(testing::WorstError(chain, plan, kRows, 3), 1e-4) << plan.name();
    }
    EXPECT_LT(PlansOf(chain, kManyRows).chosen.PredictedUs(), 15) << chain.ToString();
  }
  const double bytes_us = 4096.0 * 4096 * 4 / H200().hbm_bytes_per_us;
  const Chain large = ReadChain("x: f32[4096,4096]; out sum(x, 0, 1)");
  EXPECT_LT(PlansOf(large, 1).chosen.PredictedUs(), 2 * bytes_us);
}

TEST(StitchPlans, UpTo64TensorsLieSideBySideInOneKernel) {
  for (const int count : {33, 64}) {
    std::string parts;
    for (int i = 0; i < count; ++i) absl::StrAppend(&parts, "{f32[M,", 1 + i % 8, "]}, ");
    const Chain chain = ReadChain("out concat($0 1)", parts);
    const Plan plan = PlansOf(chain, 64).chosen;
    EXPECT_EQ(plan.kernels.size(), 1u) << count;
    EXPECT_EQ(testing::WorstError(chain, plan, 48, 7), 0) << count;
  }
}

TEST(StitchPlans, OfGathersComputeThem) { ExpectAllCompute("gathers", 32, 1e-4); }

TEST(StitchPlans, OfWindowsComputeThem) { ExpectAllCompute("windows", 4, 1e-2); }

TEST(StitchPlans, OfRowStepsComputeThem) { ExpectAllCompute("row_steps", 16, 1e-2); }

// Logits to places and shares: the sums of a softmax, the largest and what they name in one kernel,
// about as long as its bytes and a launch take.
TEST(StitchPlans, ARouterIsOneKernel) {
  for (const int64_t m : {64, 4096}) {
    const FusionResult result = PlansOf(testing::GraphOf("router(M, 128, 8)"), m);
    EXPECT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.ToText();
    const double bytes_us = static_cast<double>(m) * 128 * 2 / H200().hbm_bytes_per_us;
    EXPECT_LT(result.chosen.PredictedUs(), 8 + 8 * bytes_us) << m;
  }
}

// A row of a vocabulary is taken by tiles: few of them have its largest.
TEST(StitchPlans, OfTokensOfLongRowsComputeThem) {
  for (const int64_t columns : {8320, 9001}) {
    for (const int64_t count : {0, 20}) {
      const Chain chain = count == 0 ? testing::GraphOf("token_of_all(M, $0)", columns)
                                     : testing::GraphOf("token(M, $0, $1)", columns, count);
      const auto form = Got(NormalFormOf(std::make_shared<const Chain>(chain)));
      for (const Plan& plan : EveryPlan(PlansOf(*form->chain, 4))) {
        EXPECT_LT(testing::WorstError(*form->chain, plan, 4, 3), 1e-2)
            << columns << " " << plan.name();
      }
    }
  }
}

// What docs/lab/next-token.md says of 151,936 logits on an h200, alone and after their product.
TEST(StitchPlans, ATokenOfAVocabularyIsAFewKernels) {
  struct Case {
    int64_t m, count;
    bool product;
    size_t kernels;
    double most_us;
  };
  for (const Case& c : {Case{1, 20, false, 3, 9},
                        {8, 20, false, 2, 9},
                        {32, 20, false, 2, 11},
                        {128, 20, false, 2, 19},
                        {1, 0, false, 2, 5},
                        {8, 0, false, 2, 9},
                        {32, 0, false, 2, 28},
                        {1, 20, true, 4, 86},
                        {8, 20, true, 3, 86},
                        {32, 20, true, 3, 88}}) {
    const Chain chain = ReadChain(
        "$0; heat$1: f32[M]; seed, offset: s64[];"
        "out next_token(logits, seed, offset, temperature=heat$2)",
        c.product ? "x: bf16[M,1024]; head: const bf16[151936,1024]; logits = bf16(x @ head.T)"
                  : "logits: bf16[M,151936]",
        c.count > 0 ? ", p" : "", c.count > 0 ? ", count=20, top_p=p" : "");
    const auto form = Got(NormalFormOf(std::make_shared<const Chain>(chain)));
    const FusionResult result = PlansOf(*form->chain, c.m);
    EXPECT_EQ(result.chosen.kernels.size(), c.kernels) << c.m << result.chosen.ToText();
    EXPECT_LT(result.chosen.PredictedUs(), c.most_us) << c.m << " of " << c.count;
  }
}

// Parts of a row are taken by blocks of their own: tokens of a vocabulary.
TEST(StitchPlans, OfStepsOfLongRowsComputeThem) {
  for (const int64_t columns : {128256, 50257}) {
    for (const bool sums : {false, true}) {
      const Chain chain = sums ? testing::GraphOf("sums(M, $0, bf16)", columns)
                               : testing::GraphOf("largest(M, $0, 8, bf16)", columns);
      const auto form = Got(NormalFormOf(std::make_shared<const Chain>(chain)));
      const FusionResult result = PlansOf(*form->chain, 4);
      EXPECT_LT(result.chosen.PredictedUs(), sums ? 25 : 15) << columns;
      EXPECT_LT(testing::WorstError(*form->chain, result.chosen, 3, 5), 1e-4) << columns;
    }
  }
}

TEST(StitchPlans, NameTheRowThatIsTooLongForAStep) {
  const auto refused = PlanChain(testing::GraphOf("largest(M, 20000, 2, f32)"), 16, H200(), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(Says(refused,
                   "op 1 (top_k of 'x'): a row has 20000 elements, at "
                   "most 8192 are taken in one kernel: "
                   "take parts of the row, then of those"));
  EXPECT_TRUE(PlanChain(testing::GraphOf("sums(M, 16384, f32)"), 16, H200(), {}).ok());
}

TEST(StitchPlans, OfScattersComputeThem) { ExpectAllCompute("scatters", 32, 1e-2); }

// What a view of the cache shows is copied before it is written into the cache in place: rows would
// be read after others had been written. With a buffer of its own it is one kernel.
TEST(StitchPlans, AScatterOfAViewOfItsCacheIsCopiedFirstInPlace) {
  for (const bool in_place : {true, false}) {
    for (const bool turned : {true, false}) {
      const Chain chain = ReadChain(
          "x: f32[64,256]; ids: s32[8]; rows = x[0:8, :]; $0; out scatter(x, ids, rows) $1",
          turned ? "rows = transpose(reshape(rows, [256,8]), 1, 0)" : "rows = rows",
          in_place ? "over x" : "");
      const auto plans = Got(PlanChain(chain, 1, H200(), {}));
      EXPECT_EQ(plans.chosen.kernels.size(), in_place ? 2u : 1u) << plans.chosen.ToText();
      for (const Plan& plan : EveryPlan(plans)) {
        EXPECT_EQ(testing::WorstError(chain, plan, 1, 3), 0) << plan.name();
      }
    }
  }
}

// The reduced axes of the only reduction of a plan of one kernel.
std::vector<int32_t> ReducedAxes(const Plan& plan) {
  EXPECT_EQ(plan.kernels.size(), 1u) << plan.ToText();
  for (const Op& op : StitchOf(plan.kernels[0].spec)->body.ops()) {
    if (op.kind == OpKind::kReduce) return op.axes;
  }
  return {};
}

// Columns of a tensor in memory, whose transpose is reduced through other ops: as columns, not as
// rows whose elements lie apart.
TEST(StitchPlans, ReduceATransposeAsItsOperandLies) {
  EXPECT_EQ(ReducedAxes(PlansOf(ReadChain("x = f32({bf16[640,303,37]}); turned = transpose(x, 2, "
                                          "1, 0); out reduce_min(erf(turned), 1, 2)"),
                                1)
                            .chosen),
            (std::vector<int32_t>{0, 1}));
}

// Four cases: kept axes in another order, results that are broadcast again or stored in addition to
// their transpose, an operand without a transpose, and the row of a transpose that is undone.
TEST(StitchPlans, ReductionsOfTransposesComputeThem) {
  for (const char* order : {"2, 1, 0", "1, 2, 0", "0, 2, 1", "2, 0, 1"}) {
    for (const char* axes : {"2", "0, 2", "1", "1, 2"}) {
      const Chain chain = ReadChain(
          "x = f32({bf16[24,5,18]}); turned = transpose(x, $0); other = spread({f32[1]}, turned);"
          "y = tanh(turned) * other; e = exp(y - spread(reduce_max(y, $1, keep), y));"
          "total = sum(e, $1); out e * e, total, mean(transpose(e, 2, 1, 0), 2)",
          order, axes);
      for (const Plan& plan : EveryPlan(PlansOf(chain, 1))) {
        EXPECT_LT(testing::WorstError(chain, plan, 1, 5), 1e-5) << plan.ToText();
      }
    }
  }
}

// One thread could sum the 2,368 elements of a result. Rows of a transpose are faster.
TEST(StitchPlans, ReduceMiddleAxesTheFasterWay) {
  const Chain chain = ReadChain("x = f32({bf16[64,5,56,37]}); out mean(x, 0, 3)");
  const FusionResult result = PlansOf(chain, 1);
  EXPECT_TRUE(result.chosen.kernels[0].ops.turned) << result.chosen.ToText();
  EXPECT_LT(result.chosen.PredictedUs(), 6) << result.chosen.ToText();
}

// The convolution, its activation and the mean make no kernel; cut in half they would hand over
// what lies before the activation, in f32.
TEST(StitchPlans, AreCutWhereTheFewestBytesPass) {
  const Chain chain = ReadChain(
      "x: bf16[32,56,56,96]; filter: f32[1,1,1,3,3,96];"
      "windows = f32(window(x, 0:bf16, taps=[3,3], pads=[1,1,1,1]));"
      "sums = sum(windows * spread(filter, windows), 3, 4); active = bf16(sums * sigmoid(sums));"
      "out active, bf16(mean(f32(active), 1, 2))");
  const Plan plan = PlansOf(chain, 1).chosen;
  ASSERT_EQ(plan.kernels.size(), 2u) << plan.ToText();
  EXPECT_LT(plan.workspace_bytes, uint64_t{1} << 20) << "the sums lie in memory";
}

// Keys are normed and cast, values scaled, and both written into their caches by one kernel, which
// moves what is written, not the caches of 400 MB. How many slots they have is all the same.
TEST(StitchPlans, AWriteIntoCachesIsOneKernelWithWhatItWrites) {
  constexpr int64_t kM = 128, kHeads = 8, kDim = 128;
  for (const int64_t slots : {131072, 131071}) {
    const Chain chain = testing::GraphOf("caches_write(M, $0, $1, $2)", slots, kHeads, kDim);
    const FusionResult result = PlansOf(chain, kM);
    ASSERT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.ToText();
    const double rows = kM * kHeads * kDim;
    const double bytes = result.chosen.kernels[0].prediction.hbm_bytes;
    EXPECT_GE(bytes, 7 * rows);  // bf16 read and written, bf16 read, e4m3 written
    EXPECT_LE(bytes, 7.5 * rows);
    EXPECT_LT(result.chosen.PredictedUs(), 10);
  }
}

// Words, their positions and the norm of both: one kernel, which reads the rows that ids name, not
// the tables of 77 MB.
TEST(StitchPlans, AnEmbeddingAndItsNormAreOneKernelThatReadsRows) {
  constexpr int64_t kM = 128, kColumns = 768;
  const Chain chain = testing::GraphOf("embedding(M, 50257, $0, s64)", kColumns);
  const FusionResult result = PlansOf(chain, kM);
  ASSERT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.ToText();
  const double rows = 2.0 * kM * kColumns;  // bytes of bf16
  const double bytes = result.chosen.kernels[0].prediction.hbm_bytes;
  EXPECT_GE(bytes, 2.5 * rows);
  EXPECT_LE(bytes, 3.1 * rows);
  EXPECT_LT(result.chosen.PredictedUs(), 10);
}

// A product reads what ids took: a kernel before it, not one for each of its tiles.
TEST(StitchPlans, AProductOfTakenRowsIsTwoKernels) {
  const Chain chain = ReadChain(
      "table: const bf16[1000,256]; ids: s32[M]; w: const bf16[512,256]; rows = gather(table, "
      "ids); out bf16(rows @ w.T)");
  const FusionResult result = PlansOf(chain, 64);
  EXPECT_EQ(result.chosen.kernels.size(), 2u) << result.chosen.ToText();
  EXPECT_LT(testing::WorstError(chain, result.chosen, 64, 3), 1e-2);
}

TEST(StitchPlans, EveryRandomGraphHasAPlan) {
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; seed += 2) {
    if (!IsDrawn(seed / 2, 2)) continue;
    const Chain chain = testing::MakeRandomStitchGraph(seed, {1 << 20});
    const auto plans = Got(PlanChain(chain, 1, H200(), {}), seed);
    // Made again from its decisions, which are refused unless they compute every output.
    const auto again = Got(testing::Reassembled(plans.chosen, chain), seed);
    EXPECT_EQ(again.PlanDigest(), plans.chosen.PlanDigest()) << seed;
  }
}

// The norm is a stitch, the products take everything else: two kernels where they share one, three
// where they do not, and no plan but the unfused one has more.
TEST(StitchPlans, NormFfnAndResidualAreTwoKernelsOrThree) {
  for (const bool rounds : {true, false}) {
    for (const bool in_place : {false, true}) {
      const Chain chain = NormFfnResidual(64, 128, rounds, in_place);
      const FusionResult result = PlansOf(chain, 32);
      bool pair = false;
      for (const Plan& plan : EveryPlan(result)) {
        SCOPED_TRACE(plan.ToText());
        EXPECT_LT(testing::WorstError(chain, plan, 23, 3), 0.03);
        const KernelSpec& last = plan.kernels.back().spec;
        EXPECT_EQ(ResidualOf(ProductOf(last).sequence),
                  rounds ? Residual::kAddedRounded : Residual::kAdded);
        if (!plan.fused) continue;
        const int pairs = Kernels(plan, 2);
        pair |= pairs == 1;
        EXPECT_EQ(Kernels(plan, 0), 1);
        EXPECT_EQ(plan.kernels.size(), pairs == 1 ? 2u : 3u);
      }
      EXPECT_TRUE(pair) << "no plan gives the FFN one kernel";
      EXPECT_EQ(Kernels(*Unfused(result), 1), 2);
      EXPECT_THAT(result.chosen.note, HasSubstr("gated pair + silu, product + residual"));
    }
  }
}

// The statistic of a norm after the GEMMs, one of both halves of the pair; `before`: the chain
// normalizes the rows, unrounded. No op writes normalized rows.
Chain StatisticFfnResidual(int64_t k, int64_t n, bool before) {
  return ReadChain(
      "x: bf16[M,$0]; wide = f32(x); r = rsqrt(mean(wide * wide, 1, keep) + 1e-6);"
      "v, w: const bf16[$1,$0]; down: const bf16[$0,$1]; $2;"
      "out bf16(linear(silu(gate) * up, down, none) + wide)",
      k, n,
      before ? "rows = wide * spread(r, wide); gate = rows @ v.T; up = rows @ w.T"
             : "y = x @ v.T; gate = y * spread(r, y); z = x @ w.T; up = z * spread(r, z)");
}

TEST(StitchPlans, AStatisticIsAppliedBehindTheProductsOfItsRows) {
  for (const bool before : {false, true}) {
    const Chain chain = StatisticFfnResidual(64, 128, before);
    const FusionResult result = PlansOf(chain, 32);
    int with_norms = 0;
    for (const Plan& plan : EveryPlan(result)) {
      SCOPED_TRACE(plan.ToText());
      EXPECT_LT(testing::WorstError(chain, plan, 23, 3), 0.03);
      if (HasNorm(ProductOf(plan.kernels[0].spec).sequence)) {
        EXPECT_TRUE(plan.fused);
        EXPECT_EQ(plan.kernels.size(), 2u);
        ++with_norms;
        continue;
      }
      int factors = 0;
      for (const PlannedKernel& k : plan.kernels) {
        for (const OperandBinding& operand : ProductOf(k.spec).operands) {
          if (operand.role == Role::kA && ProductOf(k.spec).sequence[0].k == 64) {
            EXPECT_NE(operand.buffer, kWorkspaceBuffer) << "rows are the chain's input";
          }
          factors += operand.role == Role::kFactor;
        }
      }
      EXPECT_EQ(factors, 1);
      if (!plan.fused) continue;
      EXPECT_EQ(Kernels(plan, 0), 1);
    }
    EXPECT_GT(with_norms, 0);
    EXPECT_THAT(result.chosen.note, HasSubstr("gated pair * row norm + silu, product + residual"));
    const FusionResult of_many = PlansOf(chain, 128);
    EXPECT_THAT(of_many.chosen.note,
                HasSubstr("gated pair * row factor + silu, product + residual"));
  }
}

// What another kernel computes is added from the workspace, in a plan of every kind.
TEST(StitchPlans, ResidualsMayBeResultsOfOtherKernels) {
  const Chain chain = ReadChain(  // products of rows of their own: else the two are a pair
      "t: bf16[M,128]; r = t * spread(reduce_max(t, 1, keep), t); x, y: bf16[M,64];"
      "v, w: const bf16[128,64];"
      "out bf16(linear(x, v, none)) + r + bf16(linear(y, w, none, relu))");
  const FusionResult result = PlansOf(chain, 32);
  EXPECT_EQ(result.chosen.kernels.size(), 3u) << result.chosen.ToText();
  for (const Plan& plan : EveryPlan(result)) {
    SCOPED_TRACE(plan.ToText());
    EXPECT_LT(testing::WorstError(chain, plan, 23, 3), 0.03);
    int added = 0;
    for (const PlannedKernel& k : plan.kernels) {
      for (const OperandBinding& operand : ProductOf(k.spec).operands) {
        if (operand.role != Role::kResidual) continue;
        ++added;
        EXPECT_EQ(operand.buffer, kWorkspaceBuffer);
      }
    }
    EXPECT_EQ(added, 2);
  }
}

TEST(StitchPlans, TheSizesOfAModelAreTwoKernelsWhereTheProductsShareOne) {
  struct Case {
    int64_t k, n, m;
  };
  for (const Case& c : {Case{512, 1536, 64}, Case{1024, 3072, 128}, Case{4096, 11008, 1},
                        Case{4096, 14336, 2048}}) {
    const FusionResult result = PlansOf(NormFfnResidual(c.k, c.n), c.m);
    const int pairs = Kernels(result.chosen, 2);
    EXPECT_EQ(result.chosen.kernels.size(), pairs == 1 ? 2u : 3u) << result.chosen.ToText();
    std::printf("rmsnorm, gated FFN %lld x %lld, residual at m %lld: %zu kernels, %.2f us\n",
                static_cast<long long>(c.k), static_cast<long long>(c.n),
                static_cast<long long>(c.m), result.chosen.kernels.size(),
                result.chosen.PredictedUs());
  }
}

TEST(StitchPlans, ProductsBehindANormStartEarlyUnlessTheyAreCooperative) {
  int early = 0, waiting = 0;
  for (const Plan& plan : EveryPlan(PlansOf(NormFfnResidual(1024, 3072), 8))) {
    for (const PlannedKernel& k : plan.kernels) {
      if (StitchOf(k.spec) != nullptr) continue;
      const double alone =
          Predict(ProductOf(k.spec).sequence, ProductOf(k.spec).schedule, *BuiltinModel("h200"))
              .total_us;
      (IsCooperative(ProductOf(k.spec).schedule) ? waiting : early) += 1;
      EXPECT_EQ(k.prediction.total_us < alone, !IsCooperative(ProductOf(k.spec).schedule))
          << plan.ToText();
    }
  }
  EXPECT_GT(early, 0);
  EXPECT_GT(waiting, 0);
}

// How many products each product kernel takes, of every plan.
std::set<std::vector<int>> CutsOf(const FusionResult& result) {
  std::set<std::vector<int>> cuts;
  for (const Plan& plan : EveryPlan(result)) {
    std::vector<int> cut;
    for (const PlannedKernel& k : plan.kernels) {
      if (StitchOf(k.spec) == nullptr) cut.push_back(ProductOf(k.spec).sequence.size());
    }
    cuts.insert(cut);
  }
  return cuts;
}

TEST(StitchPlans, RunsBesideOtherOpsAreCutInAsManyWaysAsSequences) {
  const auto products = [](const char* rows) {
    ChainReader r("given: bf16[M,512]; x = $0", rows);
    for (int i = 0; i < 4; ++i) r.Add("x = bf16(linear(x, {const bf16[512,512]}, none))");
    r.Add("out x");
    return r.Finish();
  };
  const std::set<std::vector<int>> cuts = CutsOf(PlansOf(products("given"), 128));
  EXPECT_EQ(cuts.size(), 5u) << "of 1 to 4 products in order, at most two a kernel";
  EXPECT_EQ(CutsOf(PlansOf(products("tanh(given)"), 128)), cuts);
}

TEST(StitchPlans, ProductsAreBoundariesInGlue) {
  const Chain chain = testing::TransformerGlue(2, 64, 64);
  const FusionResult result = PlansOf(chain, 1);
  EXPECT_EQ(Kernels(result.chosen, 1), 4);
  EXPECT_LE(Kernels(result.chosen, 0), 5);
  EXPECT_LT(testing::WorstError(chain, result.chosen, 1, 5), 0.05);
  EXPECT_LT(testing::WorstError(chain, *Unfused(result), 1, 5), 0.05);
}

TEST(StitchPlans, OutputsMayShareTheBuffersOfInputsThatAreReadBefore) {
  const Chain chain = testing::AdamOver({300, 300, 77});
  const FusionResult result = PlansOf(chain, 1);
  for (const Plan& plan : EveryPlan(result)) {
    EXPECT_LT(testing::WorstError(chain, plan, 1, 9), 0.01) << plan.name();
  }
}

int Parts(const Plan& plan) {
  int parts = 0;
  for (const PlannedKernel& k : plan.kernels)
    parts += static_cast<int>(StitchOf(k.spec)->parts.size());
  return parts;
}

TEST(StitchPlans, RowsOfOtherUnitsArePacked) {
  const Chain chain = testing::IndependentRows({{900, 768}, {64, 4096}}, 100000);
  const FusionResult result = PlansOf(chain, 1);
  EXPECT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.ToText();
  EXPECT_EQ(Parts(result.chosen), 3);
  EXPECT_THAT(result.chosen.ToText(), HasSubstr("packing 3 parts"));
  for (const Plan& plan : EveryPlan(result)) {
    EXPECT_LT(testing::WorstError(chain, plan, 1, 3), 0.05) << plan.name();
    EXPECT_GE(plan.PredictedUs(), result.chosen.PredictedUs()) << "never slower than apart";
    EXPECT_EQ(Got(testing::Reassembled(plan, chain)).PlanDigest(), plan.PlanDigest());
  }
}

TEST(StitchPlans, UpdatesOfManyTensorsAreOneKernel) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 80; ++i) sizes.push_back(1000 + 4096 * (i % 7));
  const Chain chain = testing::IndependentUpdates(sizes);
  const FusionResult result = PlansOf(chain, 1);
  EXPECT_EQ(result.chosen.kernels.size(), 1u) << result.chosen.note;
  EXPECT_EQ(Parts(result.chosen), 80) << "more ops than one body may have";
  EXPECT_LT(testing::WorstError(chain, result.chosen, 1, 3), 0.05);
}

TEST(StitchPlans, BindsEveryOperandInsideTheWorkspaceBehindTheFlags) {
  const Chain chain = testing::TransformerGlue(3, 64, 128);
  const FusionResult result = PlansOf(chain, 1);
  for (const Plan& plan : EveryPlan(result)) {
    for (const PlannedKernel& kernel : plan.kernels) {
      if (kernel.spec.family != &StitchFamily()) continue;
      const StitchSpec& spec = *StitchOf(kernel.spec);
      ASSERT_EQ(spec.operands.size(),
                static_cast<size_t>(spec.body.num_inputs() + spec.body.num_outputs()));
      for (const BufferPlace& operand : spec.operands) {
        if (operand.buffer != kWorkspaceBuffer) continue;
        EXPECT_EQ(operand.offset_bytes % 256, 0u);
        EXPECT_GE(operand.offset_bytes, kWorkspaceFlagBytes);
        EXPECT_LT(operand.offset_bytes, plan.workspace_bytes);
      }
    }
    EXPECT_EQ(Got(testing::Reassembled(plan, chain)).PlanDigest(), plan.PlanDigest());
  }
}

TEST(StitchPlans, AreEqualForGraphsBuiltInAnotherOrder) {
  const auto plan_of = [](const char* first, const char* second) {
    return PlansOf(ReadChain("x, r: f32[512,256]; $0; $1; out a * b, b + r", first, second), 1)
        .chosen;
  };
  constexpr char kA[] = "a = x - spread(mean(x, 1, keep), x)", kB[] = "b = tanh(r)";
  const Plan first = plan_of(kA, kB), second = plan_of(kB, kA);
  EXPECT_EQ(first.PlanDigest(), second.PlanDigest());
  EXPECT_EQ(first.ToText(), second.ToText());
}

TEST(StitchPlans, AskingTwiceGivesTheSamePlan) {
  const Chain chain = testing::RandomDag(7, 120, 4096, 512);
  EXPECT_EQ(EncodeDecisions(DecisionsOf(PlansOf(chain, 1).chosen)),
            EncodeDecisions(DecisionsOf(PlansOf(chain, 1).chosen)));
}

TEST(StitchPlans, AFineGrainedProductIsAMemberOfAStitch) {
  const Chain chain = testing::GraphOf("pooled_product(256, 100, 36)");
  const Plan plan = PlansOf(chain, 1).chosen;
  ASSERT_EQ(plan.kernels.size(), 1u) << plan.ToText();
  EXPECT_EQ(plan.kernels[0].spec.family, &StitchFamily());
}

TEST(StitchPlans, NameTheProductThatNoKernelTakes) {
  const auto result = PlanChain(
      ReadChain("x: f32[64,2048,2048]; y: f32[64,2048,2048]; out tanh(x @ y.T)"), 1, H200(), {});
  if (result.ok()) GTEST_SKIP() << "a stitch kernel takes the product";
  EXPECT_EQ(StatusNumber(result.status()), static_cast<int32_t>(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(Says(result, "op 2 (matmul of"));
}

}  // namespace
}  // namespace sinter
