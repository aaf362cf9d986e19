// Which ops products take, and which of them follow one another.
#include "src/fusion/product_runs.h"

#include "src/fusion/plan_choice.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

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

// A run with what it stores and reads, each as an output of the chain or by the op that makes it.
std::string InFull(const Chain& chain, const GraphRun& run) {
  const auto place = [&](ValueId id) {
    const auto& outputs = chain.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].value == id) return absl::StrCat("output ", i);
    }
    return std::string(NameOf(chain.op(id).kind));
  };
  const MatchedSequence& matched = run.matched;
  EXPECT_EQ(matched.sequence.m, 32);
  const MatrixProduct& first = matched.sequence.front();
  std::string text = absl::StrCat(Absorbed(run), first.epilogue.form().rounds ? " rounded" : "",
                                  " to ", NameOf(run.dtype()), " in ", place(run.end));
  for (const ValueId aux : run.aux) absl::StrAppend(&text, " and ", place(aux));
  absl::StrAppend(&text, " of ", NameOf(first.rows.element), " ",
                  place(matched.ValueOf(matched.rows)), " and ",
                  matched.weights_constant ? "constant" : "other", " weights");
  const std::pair<const char*, int> operands[] = {
      {"scale", matched.inputs[0].scale_weights},
      {"residual", matched.NumberOf(0, Role::kResidual)}};
  for (const auto& [name, operand] : operands) {
    if (operand >= 0) absl::StrAppend(&text, ", ", name, " ", place(matched.ValueOf(operand)));
  }
  return text;
}

TEST(ProductRuns, AreInFullWhatTheFileSays) {
  for (const auto& [text, runs] : RefusalsOf("tests/unit/fusion/product_runs.txt", "in full")) {
    const Chain chain = ReadChain(text);
    const ProductRuns found = FindProductRuns(chain, 32);
    EXPECT_TRUE(found.refused.empty()) << text;
    const auto in_full = [&](std::string* to, const GraphRun& run) {
      absl::StrAppend(to, InFull(chain, run));
    };
    EXPECT_EQ(absl::StrJoin(found.runs, " | ", in_full), runs) << text;
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

TEST(ProductRuns, SayWhyAProductIsInNone) {
  const ProductRuns found = FindProductRuns(
      ReadChain("x: bf16[M,64]; t: f32[128,64]; w = tanh(t); out bf16(x @ w.T)"), 32);
  EXPECT_TRUE(found.runs.empty());
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_THAT(found.refused.begin()->second, HasSubstr("f32"));
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
