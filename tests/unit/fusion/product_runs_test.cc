// Which ops products take, and which of them follow one another.
#include "src/fusion/product_runs.h"

#include "src/fusion/plan_choice.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

TEST(ProductRuns, TakeBiasActivationAndTheCastThatRounds) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128];"
      "y = bf16(linear(x, w, b, gelu_erf)); out bf16(f32(y) - spread(mean(y, 1, keep), y))");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_TRUE(found.refused.empty());
  EXPECT_EQ(AbsorbedBy(found.runs[0]).substr(AbsorbedBy(found.runs[0]).find(':')),
            ": product + bias + gelu_erf");
  EXPECT_EQ(chain.op(found.runs[0].end).kind, OpKind::kCast);
  EXPECT_EQ(found.runs[0].matched.sequence.m, 32);
}

// z and act(z) are graph outputs. A value that ops other than the activation read is not an
// auxiliary result.
TEST(ProductRuns, GiveOutWhatTheyActivate) {
  for (const bool read_outside : {false, true}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128]; z = bf16(linear(x, w, b));"
        "wide = f32(z); out bf16(tanh(wide)), z $0",
        read_outside ? ", mean(wide, 1, keep)" : "");
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u);
    const GraphRun& run = found.runs[0];
    EXPECT_EQ(run.aux.size(), read_outside ? 0u : 1u);
    EXPECT_EQ(run.end == chain.outputs()[0].value, !read_outside);
    EXPECT_EQ(AbsorbedBy(run).substr(AbsorbedBy(run).find(':')),
              read_outside ? ": product + bias"
                           : ": product + bias + t1=to_bf16(y);tanh(to_f32(t1));aux=y")
        << AbsorbedBy(run);
  }
}

// A GEMM stores y and relu(y), which are graph outputs. The ops after them compute another output
// and end in one value, so they are a kernel of their own.
TEST(ProductRuns, LeaveToOthersWhatLeadsOnToMoreResults) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; w: const bf16[128,64]; y = linear(x, w, none); h = relu(y); e = square(h);"
      "u = tanh(e); out y, h, u, u * e");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].end, chain.outputs()[1].value);
  EXPECT_EQ(found.runs[0].aux, (std::vector<ValueId>{chain.outputs()[0].value}));
}

// A result in place of an input, or one that is output twice, is not auxiliary.
TEST(ProductRuns, GiveOutNothingThatOneStoreCannot) {
  for (const int kind : {0, 1, 2}) {
    const char* given_out[] = {"out bf16(z) over old", "s = bf16(z); out s, s", "out z"};
    const Chain chain = ReadChain(
        "old: bf16[M,128]; x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128];"
        "z = linear(x, w, b); out bf16(tanh(z) * f32(old)); $0",
        given_out[kind]);
    const ProductRuns found = FindProductRuns(chain, 32);
    // A type other than the result's does not prevent it.
    for (const GraphRun& run : found.runs) EXPECT_EQ(run.aux.size(), kind == 2 ? 1u : 0u) << kind;
  }
}

// A gated pair of codes, its quantiser, and a product of its codes. `also`: who else uses what.
enum class Also { kNobody, kResult, kScale, kOtherScale, kCaller };
Chain QuantizedPair(const QuantizeSpec& spec, Also also,
                    Activation activation = Activation::kSilu) {
  ChainBuilder b;
  const auto in = [&](DType dtype, Dim rows, int64_t columns) {
    return *b.Input({dtype, {rows, Dim::Constant(columns)}}, {!rows.symbolic, {}, ""});
  };
  const auto codes = [&](Dim rows, int64_t k) {
    return Scaled{in(DType::kE4M3, rows, k), in(DType::kF32, rows, 1)};
  };
  const Scaled a = codes(Dim::M(), 128);
  const ValueId gate = *AddScaledLinear(b, a, codes(Dim::Constant(256), 128), kNoValue, activation);
  const ValueId up = *AddScaledLinear(b, a, codes(Dim::Constant(256), 128));
  const ValueId y = *b.Binary(BinaryKind::kMul, gate, up);
  QuantizeSpec of = spec;
  if (spec.granularity == Granularity::kStatic) of.scale = *b.Input({DType::kF32, {}});
  Scaled c = *AddQuantize(b, y, of);
  const ValueId scale = c.scale;
  if (also == Also::kOtherScale) c.scale = in(DType::kF32, Dim::M(), 2);
  EXPECT_TRUE(b.Output(*AddScaledLinear(b, c, codes(Dim::Constant(64), 256))).ok());
  if (also == Also::kResult) {
    EXPECT_TRUE(b.Output(y).ok());
  }
  if (also == Also::kCaller) {
    EXPECT_TRUE(b.Output(scale).ok());
  }
  if (also == Also::kScale || also == Also::kOtherScale) {
    EXPECT_TRUE(b.Output(*b.Unary(UnaryKind::kNeg, scale)).ok());
  }
  return *b.Finish();
}

TEST(ProductRuns, TakeTheQuantiserOfTheirResult) {
  QuantizeSpec groups, given, bounded;
  groups.granularity = bounded.granularity = Granularity::kGroup;
  given.granularity = Granularity::kStatic;
  bounded.ue8m0 = true;
  bounded.upper_bound = 5;
  for (const QuantizeSpec& spec : {groups, given, bounded}) {
    const Chain chain = QuantizedPair(spec, Also::kNobody);
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 2u);
    const GraphRun& pair = found.runs[0];
    EXPECT_THAT(AbsorbedBy(pair), HasSubstr("gated pair + silu + quantize"));
    EXPECT_EQ(pair.dtype(), DType::kE4M3);
    EXPECT_EQ(chain.op(pair.end).type.dtype, DType::kE4M3);
    const bool of_groups = spec.granularity == Granularity::kGroup;
    EXPECT_EQ(pair.scale >= 0, of_groups);
    const QuantizeRule want = of_groups
                                  ? QuantizeRule{128, static_cast<float>(spec.eps),
                                                 static_cast<float>(spec.upper_bound), spec.ue8m0}
                                  : QuantizeRule{};
    EXPECT_TRUE(*pair.matched.sequence[0].epilogue.quantize == want);
    const MatchedSequence& next = found.runs[1].matched;
    EXPECT_EQ(next.ValueOf(next.rows), pair.end);
    if (of_groups) {
      EXPECT_EQ(next.ValueOf(next.inputs[0].scale_rows), pair.scale);
    }
  }
}

TEST(ProductRuns, LeaveQuantisersOfGroupsWhereAsked) {
  for (const Granularity granularity : {Granularity::kGroup, Granularity::kStatic}) {
    const Chain chain = QuantizedPair({.granularity = granularity}, Also::kNobody);
    const ProductRuns found = FindProductRuns(chain, 32, nullptr, {false, false});
    ASSERT_EQ(found.runs.size(), 2u);
    const bool left = granularity == Granularity::kGroup;
    EXPECT_EQ(found.runs[0].dtype(), left ? DType::kF32 : DType::kE4M3);
    EXPECT_EQ(found.runs[0].scale, -1);
  }
}

TEST(ProductRuns, LeaveQuantisersWhoseInsideOthersUse) {
  QuantizeSpec groups, rows;
  groups.granularity = Granularity::kGroup;
  rows.granularity = Granularity::kRow;
  for (const Also also : {Also::kResult, Also::kScale, Also::kOtherScale, Also::kCaller}) {
    const ProductRuns found = FindProductRuns(QuantizedPair(groups, also), 32);
    ASSERT_FALSE(found.runs.empty());
    EXPECT_EQ(found.runs[0].scale, -1) << static_cast<int>(also);
    EXPECT_EQ(found.runs[0].dtype(), DType::kF32) << static_cast<int>(also);
  }
  EXPECT_EQ(FindProductRuns(QuantizedPair(rows, Also::kNobody), 32).runs[0].dtype(), DType::kF32);
}

// An f32 result that the next kernel quantises, and nobody else sees.
TEST(ProductRuns, AskForNoExactFunctionsWhereOnlyCodesAreMade) {
  QuantizeSpec groups, rows;
  groups.granularity = Granularity::kGroup;
  rows.granularity = Granularity::kRow;
  const auto for_codes = [](const Chain& chain) {
    const ProductRuns found = FindProductRuns(chain, 32, nullptr, {false, false});
    EXPECT_EQ(found.runs[0].dtype(), DType::kF32);
    return found.runs[0].matched.sequence[0].epilogue.program.for_codes;
  };
  for (const QuantizeSpec& spec : {groups, rows}) {
    EXPECT_TRUE(for_codes(QuantizedPair(spec, Also::kNobody)));
    for (const Also also : {Also::kResult, Also::kScale, Also::kOtherScale}) {
      EXPECT_FALSE(for_codes(QuantizedPair(spec, also))) << static_cast<int>(also);
    }
    EXPECT_FALSE(for_codes(QuantizedPair(spec, Also::kNobody, Activation::kGeluErf)))
        << "1 + erf has no small relative error";
    EXPECT_FALSE(for_codes(QuantizedPair(spec, Also::kNobody, Activation::kRelu)));
  }
  rows.ue8m0 = true;
  EXPECT_FALSE(for_codes(QuantizedPair(rows, Also::kNobody))) << "a power of two may be another";
}

TEST(ProductRuns, FollowOneAnotherOnlyWhenNobodyElseReads) {
  for (const bool shared : {false, true}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; w: const bf16[128,64]; v: const bf16[64,128];"
        "y = bf16(linear(x, w, none, relu)); out bf16(linear(y, v, none) + f32(x)) $0",
        shared ? ", y" : "");
    const ProductRuns found = FindProductRuns(chain, 32);
    EXPECT_EQ(found.runs.size(), shared ? 2u : 1u);
    EXPECT_EQ(found.runs[0].matched.size(), shared ? 1 : 2);
  }
}

// One sequence of two products stores nothing of the first.
TEST(ProductRuns, FollowNoProductThatGivesOutWhatItActivates) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128]; v: const bf16[64,128];"
      "z = bf16(linear(x, w, b)); out z, bf16(linear(bf16(relu(f32(z))), v, none))");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 2u);
  EXPECT_EQ(found.runs[0].aux, (std::vector<ValueId>{chain.outputs()[0].value}));
}

TEST(ProductRuns, RoundRowsThatNobodyRounded) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; gamma: const bf16[64]; w: const bf16[128,64];"
      "out bf16(rmsnorm(x, 1e-6, f32(gamma)) @ f32(w).T)");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const StitchGraph graph = Got(StitchGraph::Make(chain, 32, {found.runs[0]}, {}));
  const GraphRun& run = found.runs[0];
  EXPECT_EQ(graph.StoredDType(run.matched.ValueOf(run.matched.rows)), DType::kBF16);
}

// "product + bias + silu": what the run took, without its op.
std::string Absorbed(const GraphRun& run) {
  const std::string text = AbsorbedBy(run);
  return text.substr(text.find(": ") + 2);
}

TEST(ProductRuns, TakeAResidualThatIsRoundedNext) {
  for (const bool rounds : {false, true}) {
    // tanh(r): no sequence of products as a whole.
    const Chain chain = ReadChain(
        "x: bf16[M,64]; r: bf16[M,128]; w: const bf16[128,64]; b: const bf16[128];"
        "y = linear(x, w, b, silu); out bf16($0 + f32(r)), bf16(tanh(r))",
        rounds ? "f32(bf16(y))" : "y");
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u);
    const GraphRun& run = found.runs[0];
    EXPECT_EQ(Absorbed(run), "product + bias + silu + residual");
    EXPECT_EQ(run.matched.sequence[0].epilogue.form().rounds, rounds);
    EXPECT_EQ(run.end, chain.outputs()[0].value);
    EXPECT_EQ(chain.op(run.matched.ValueOf(run.matched.NumberOf(0, Role::kResidual))).kind,
              OpKind::kInput);
  }
}

// The runs of a chain as product_runs.txt has them.
std::string TakenBy(const ProductRuns& found) {
  std::vector<std::string> runs;
  for (const GraphRun& run : found.runs) {
    runs.push_back(absl::StrCat(Absorbed(run), " to ", NameOf(run.dtype())));
  }
  std::sort(runs.begin(), runs.end());
  return absl::StrJoin(runs, " | ");
}

TEST(ProductRuns, TakeWhatTheFileSays) {
  for (const auto& [chain, runs] : RefusalsOf("tests/unit/fusion/product_runs.txt", "takes")) {
    EXPECT_EQ(TakenBy(FindProductRuns(ReadChain(chain), 32)), runs) << chain;
  }
}

TEST(ProductRuns, AddWhatOtherKernelsCompute) {
  // The weights differ in layout, so that no kernel has both as a pair. The sums are in bf16; both
  // others are read by nobody else.
  const Chain chain = ReadChain(
      "x: bf16[M,64]; q: bf16[M,128]; w: const bf16[128,64]; v: const bf16[64,128];"
      "out bf16(linear(x, w, none)) + tanh(q) + bf16(relu(x @ v))");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 2u);
  std::vector<std::string> took = {Absorbed(found.runs[0]), Absorbed(found.runs[1])};
  std::sort(took.begin(), took.end());
  EXPECT_THAT(took, ElementsAre("product + relu + residual", "product + residual"));
  EXPECT_OK(StitchGraph::Make(chain, 32, {found.runs[0], found.runs[1]}, {}));
}

// A pair whose halves both meet a matrix is one kernel.
TEST(ProductRuns, OfAPairAddAMatrixToEitherHalf) {
  const ProductRuns found = FindProductRuns(
      ReadChain("x: bf16[M,64]; r: bf16[M,128]; w, v: const bf16[128,64];"
                "out bf16(linear(x, w, none)) + r + bf16(linear(x, v, none, relu))"),
      32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_TRUE(found.runs[0].matched.sequence[0].pair);
  EXPECT_TRUE(found.runs[0].matched.sequence[0].epilogue.program.whole());
}

// h * z of two products of x whose layouts differ, so that no kernel has both; h is rounded and
// widened. Whichever is found first, neither reads what the other keeps to itself.
TEST(ProductRuns, ReadWhatOtherRunsStoreAloneBehindViews) {
  for (const char* product : {"h * z", "z * h"}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128]; v: const bf16[64,128];"
        "h = f32(bf16(linear(x, w, b))); z = x @ v; out bf16($0)",
        product);
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 2u);
    for (const GraphRun& run : found.runs) {
      const GraphRun& other = &run == &found.runs[0] ? found.runs[1] : found.runs[0];
      for (const ProductOperand& operand : run.matched.operands) {
        EXPECT_TRUE(operand.value == other.end ||
                    std::count(other.values.begin(), other.values.end(), operand.value) == 0)
            << "op " << operand.value;
      }
    }
    EXPECT_TRUE(StitchGraph::Make(chain, 32, found.runs, {}).ok());
  }
}

TEST(ProductRuns, StoreRoundedResultsBeforeTheyAreWidened) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; w: const bf16[128,64]; b: const bf16[128]; h = f32(bf16(linear(x, w, b)));"
      "out bf16(h - spread(mean(h, 1, keep), h))");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const Op& end = chain.op(found.runs[0].end);
  EXPECT_EQ(end.kind, OpKind::kCast);
  EXPECT_EQ(end.type.dtype, DType::kBF16);
  EXPECT_EQ(found.runs[0].dtype(), DType::kBF16);
}

TEST(ProductRuns, TakeScalarsAndAStatisticOfTheirRows) {
  const Chain chain = ReadChain(
      "x: bf16[M,64]; w, v: const bf16[128,64]; r = rsqrt(mean(f32(x) * f32(x), 1, keep) + 1e-6);"
      "s = spread(r, [M,128]); out bf16(silu(x @ w.T * 0.125 * s) * (x @ v.T * 0.125 * s))");
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const GraphRun& run = found.runs[0];
  EXPECT_EQ(Absorbed(run), "gated pair * 0.125 * row factor + silu");
  const ValueId factor = run.matched.ValueOf(run.matched.NumberOf(0, Role::kFactor));
  EXPECT_EQ(chain.op(factor).unary, UnaryKind::kRsqrt) << "what is spread lies in memory";
  const StitchGraph graph = Got(StitchGraph::Make(chain, 32, {run}, {}));
  EXPECT_EQ(graph.StoredDType(factor), DType::kF32) << "and not as the weights are";
}

// A folded batch norm; its scale may be what another kernel has computed.
TEST(ProductRuns, TakeAScaleOfTheirColumns) {
  for (const bool computed : {false, true}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; c: const f32[128]; w: const bf16[128,64]; b: const bf16[128]; s = $0"
        "y = x @ w.T * spread(s, [M,128]); out bf16(silu(y + spread(b, y)))",
        computed ? "c * c; out s;" : "c;");
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u);
    const MatchedSequence& matched = found.runs[0].matched;
    EXPECT_EQ(Absorbed(found.runs[0]), "product * column scale + bias + silu");
    const ValueId scale = matched.ValueOf(matched.inputs[0].scale_weights);
    EXPECT_EQ(chain.op(scale).kind == OpKind::kInput, !computed);
    EXPECT_EQ(matched.weights_constant, !computed);
  }
}

// (x r) W is (x W) r, and x is there already: nobody writes x r.
TEST(ProductRuns, TakeAFactorOfRowsThatNobodyRounds) {
  for (const bool shared : {false, true}) {
    const Chain chain = ReadChain(
        "x: bf16[M,64]; w: const bf16[128,64]; norm = rmsnorm(x, 1e-6); out bf16(norm @ w.T) $0",
        shared ? ", bf16(norm)" : "");
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u);
    const GraphRun& run = found.runs[0];
    EXPECT_EQ(Absorbed(run), shared ? "product" : "product * row factor");
    EXPECT_EQ(chain.op(run.matched.ValueOf(run.matched.rows)).kind == OpKind::kInput, !shared);
  }
}

TEST(ProductRuns, TakeTheNormOfTheirRowsWhereNobodyElseReadsIt) {
  const struct {
    const char *normed, *rows, *also, *took;
  } cases[] = {{"x", "n", "", " * row norm"},
               {"x", "n", ", r", " * row factor"},
               {"x", "bf16(n)", "", ""},
               {"y", "n", "", " * row factor"}};
  for (const auto& c : cases) {
    const Chain chain = ReadChain(
        "x, y: bf16[M,64]; w, v: const bf16[128,64]; d: const bf16[64,128]; q = f32($0);"
        "r = rsqrt(mean(q * q, 1, keep) + 1e-6); n = f32(x) * spread(r, x); rows = $1;"
        "out bf16(silu(rows @ w.T) * (rows @ v.T) @ d.T), tanh(y) $2",
        c.normed, c.rows, c.also);
    const ProductRuns found = FindProductRuns(chain, 32, nullptr, {true, true});
    ASSERT_EQ(found.runs.size(), 1u);
    EXPECT_EQ(Absorbed(found.runs[0]), absl::StrCat("gated pair", c.took, " + silu, product"));
    EXPECT_EQ(HasNorm(found.runs[0].matched.sequence), &c == &cases[0]);
    EXPECT_FALSE(HasNorm(FindProductRuns(chain, 32).runs[0].matched.sequence));
    EXPECT_TRUE(MayTakeNorms(chain, 64));
    EXPECT_FALSE(MayTakeNorms(chain, 96));
  }
}

// Its kernel may not read them before the one that computes them has ended.
TEST(ProductRuns, ReadMatricesThatOtherKernelsCompute) {
  for (const char* w : {"tanh(t)", "bf16(tanh(t))"}) {
    const ProductRuns found = FindProductRuns(
        ReadChain("x: bf16[M,64]; t: bf16[128,64]; w = $0; out bf16(x @ w.T)", w), 32);
    ASSERT_EQ(found.runs.size(), 1u) << found.refused.begin()->second;
    EXPECT_EQ(Absorbed(found.runs[0]), "product");
    EXPECT_FALSE(found.runs[0].matched.weights_constant);
  }
}

TEST(ProductRuns, SayWhyAProductIsInNone) {
  const ProductRuns found = FindProductRuns(
      ReadChain("x: bf16[M,64]; t: f32[128,64]; w = tanh(t); out bf16(x @ w.T)"), 32);
  EXPECT_TRUE(found.runs.empty());
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_THAT(found.refused.begin()->second, HasSubstr("f32"));
}

// With and without another output, with and without an activation.
TEST(ProductRuns, AResultThatTheChainGivesOutInF32IsStoredInF32) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const bool beside : {false, true}) {
      for (const Activation act : {Activation::kIdentity, Activation::kRelu}) {
        const Chain chain =
            ReadChain("x: $0[M,64]; w: const $0[128,64]; y = x @ w.T; out $1 $2", NameOf(dtype),
                      act == Activation::kRelu ? "relu(y)" : "y", beside ? ", abs(x)" : "");
        const ProductRuns found = FindProductRuns(chain, 32);
        ASSERT_EQ(found.runs.size(), 1u);
        EXPECT_TRUE(found.refused.empty());
        const MatrixProduct& p = found.runs[0].matched.sequence.front();
        EXPECT_EQ(p.result, DType::kF32);
        EXPECT_EQ(p.rows.element, dtype);
        EXPECT_EQ(p.epilogue.activation(), act);
      }
    }
  }
}

// The kernel of two GEMMs stores 16 bits: the last GEMM then gets its own kernel.
TEST(ProductRuns, TheLastOfSeveralProductsStoresF32Alone) {
  const ProductRuns found = FindProductRuns(
      ReadChain("x: bf16[M,64]; w: const bf16[128,64]; v: const bf16[64,128]; out x @ w.T @ v.T"),
      32);
  ASSERT_EQ(found.runs.size(), 1u);
  const ProductSequence& s = found.runs[0].matched.sequence;
  ASSERT_EQ(s.size(), 2);
  EXPECT_EQ(s[0].result, DType::kBF16);
  EXPECT_EQ(s[1].result, DType::kF32);
  EXPECT_FALSE(CanPair(s, 0));
  EXPECT_FALSE(CheckSequence(s).ok());
  EXPECT_TRUE(CheckSequence(s.Part(1, 1)).ok());
}

}  // namespace
}  // namespace sinter
