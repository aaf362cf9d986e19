// Which ops products take, and which of them follow one another.
#include "src/fusion/product_runs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/chain/composites.h"
#include "src/fusion/plan_choice.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

ValueId Linear(testing::Graph* g, ValueId x, int64_t n, int64_t k, bool bias, Activation act) {
  const ValueId w = g->In(DType::kBF16, {n, k}, true);
  const ValueId b = bias ? g->In(DType::kBF16, {n}, true) : kNoValue;
  return *AddLinear(g->builder(), x, w, b, Layout::kOI, act);
}

TEST(ProductRuns, TakeBiasActivationAndTheCastThatRounds) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId y = Linear(&g, x, 128, 64, true, Activation::kGeluErf);
  const ValueId rounded = g.Cast(y, DType::kBF16);
  g.Out(g.Cast(g.Sub(g.Cast(rounded, DType::kF32), g.Spread(g.Mean(rounded, 1), rounded)),
               DType::kBF16));
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_TRUE(found.refused.empty());
  EXPECT_EQ(AbsorbedBy(found.runs[0]).substr(AbsorbedBy(found.runs[0]).find(':')),
            ": product + bias + gelu_erf");
  EXPECT_EQ(chain.op(found.runs[0].end).kind, OpKind::kCast);
  EXPECT_EQ(found.runs[0].matched.sequence.m, 32);
}

// z and act(z) are given out. What others than the activation read is no auxiliary result.
TEST(ProductRuns, GiveOutWhatTheyActivate) {
  for (const bool read_outside : {false, true}) {
    testing::Graph g;
    const ValueId z =
        g.Cast(Linear(&g, g.In(DType::kBF16, {-1, 64}), 128, 64, true, Activation::kIdentity),
               DType::kBF16);
    const ValueId wide = g.Cast(z, DType::kF32);
    g.Out(g.Cast(g.Un(UnaryKind::kTanh, wide), DType::kBF16));
    g.Out(z);
    if (read_outside) g.Out(g.Mean(wide, 1));
    const Chain chain = g.Finish();
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

// Results that other kernels would leave behind are none of the product's: y and relu(y) are given
// out, and what follows gives out another one and ends in one value, as a kernel of its own does.
TEST(ProductRuns, LeaveToOthersWhatLeadsOnToMoreResults) {
  testing::Graph g;
  const ValueId y = Linear(&g, g.In(DType::kBF16, {-1, 64}), 128, 64, false, Activation::kIdentity);
  g.Out(y);
  const ValueId h = g.Un(UnaryKind::kRelu, y);
  g.Out(h);
  const ValueId e = g.Un(UnaryKind::kSquare, h);
  const ValueId u = g.Un(UnaryKind::kTanh, e);
  g.Out(u);
  g.Out(g.Mul(u, e));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].end, h);
  EXPECT_EQ(found.runs[0].aux, (std::vector<ValueId>{y}));
}

// A result in place of an input or given out twice is none.
TEST(ProductRuns, GiveOutNothingThatOneStoreCannot) {
  for (const int kind : {0, 1, 2}) {
    testing::Graph g;
    const ValueId old = g.In(DType::kBF16, {-1, 128});
    const ValueId z =
        Linear(&g, g.In(DType::kBF16, {-1, 64}), 128, 64, true, Activation::kIdentity);
    const ValueId stored = kind == 2 ? z : g.Cast(z, DType::kBF16);
    g.Out(g.Cast(g.Mul(g.Un(UnaryKind::kTanh, z), g.Cast(old, DType::kF32)), DType::kBF16));
    OutputOptions options;
    if (kind == 0) options.alias = old;
    g.Out(stored, options);
    if (kind == 1) g.Out(stored);
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    // Another type than the result's is no hindrance.
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
    QuantizeSpec spec;
    spec.granularity = granularity;
    const Chain chain = QuantizedPair(spec, Also::kNobody);
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
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId y = g.Cast(Linear(&g, x, 128, 64, false, Activation::kRelu), DType::kBF16);
    const ValueId z = Linear(&g, y, 64, 128, false, Activation::kIdentity);
    g.Out(g.Cast(g.Add(z, g.Cast(x, DType::kF32)), DType::kBF16));
    if (shared) g.Out(y);
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    EXPECT_EQ(found.runs.size(), shared ? 2u : 1u);
    EXPECT_EQ(found.runs[0].matched.size(), shared ? 1 : 2);
  }
}

// One sequence of two products stores nothing of the first.
TEST(ProductRuns, FollowNoProductThatGivesOutWhatItActivates) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId z = g.Cast(Linear(&g, x, 128, 64, true, Activation::kIdentity), DType::kBF16);
  const ValueId y = g.Cast(g.Un(UnaryKind::kRelu, g.Cast(z, DType::kF32)), DType::kBF16);
  g.Out(z);
  g.Out(g.Cast(Linear(&g, y, 64, 128, false, Activation::kIdentity), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 2u);
  EXPECT_EQ(found.runs[0].aux, (std::vector<ValueId>{z}));
}

TEST(ProductRuns, RoundRowsThatNobodyRounded) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId gamma = g.Cast(g.In(DType::kBF16, {64}, true), DType::kF32);
  const ValueId norm = *AddRmsNorm(g.builder(), x, 1e-6, gamma);  // f32
  const ValueId w = g.Cast(g.In(DType::kBF16, {128, 64}, true), DType::kF32);
  g.Out(g.Cast(g.Matmul(norm, w), DType::kBF16));
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const absl::StatusOr<StitchGraph> graph = StitchGraph::Make(chain, 32, {found.runs[0]}, {});
  ASSERT_TRUE(graph.ok());
  const GraphRun& run = found.runs[0];
  EXPECT_EQ(graph->StoredDType(run.matched.ValueOf(run.matched.rows)), DType::kBF16);
}

// "product + bias + silu": what the run took, without its op.
std::string Absorbed(const GraphRun& run) {
  const std::string text = AbsorbedBy(run);
  return text.substr(text.find(": ") + 2);
}

TEST(ProductRuns, TakeAResidualThatIsRoundedNext) {
  for (const bool rounds : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64}), r = g.In(DType::kBF16, {-1, 128});
    ValueId y = Linear(&g, x, 128, 64, true, Activation::kSilu);
    if (rounds) y = g.Cast(g.Cast(y, DType::kBF16), DType::kF32);
    g.Out(g.Cast(g.Add(y, g.Cast(r, DType::kF32)), DType::kBF16));
    g.Out(g.Cast(g.Un(UnaryKind::kTanh, r), DType::kBF16));  // no sequence of products as a whole
    const Chain chain = g.Finish();
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

// A block of a residual network in small: x is rows and residual, and a sum is activated.
TEST(ProductRuns, TakeTheActivationOfASum) {
  for (const Activation act : {Activation::kRelu, Activation::kSilu, Activation::kGeluTanh}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId r = g.Un(UnaryKind::kTanh, x);  // in a kernel of its own
    const ValueId c = g.Cast(Linear(&g, x, 128, 64, true, Activation::kRelu), DType::kBF16);
    const ValueId e = Linear(&g, c, 64, 128, true, Activation::kIdentity);
    const ValueId sum = g.Add(e, g.Cast(r, DType::kF32));
    const ValueId y = g.Cast(*AddActivation(g.builder(), act, sum), DType::kBF16);
    g.Out(g.Mean(g.Cast(y, DType::kF32), 1));
    const Chain chain = g.Finish();
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u) << NameOf(act);
    EXPECT_EQ(Absorbed(found.runs[0]),
              absl::StrCat("product + bias + relu, product + bias + residual + ", NameOf(act)));
  }
}

TEST(ProductRuns, AddWhatOtherKernelsCompute) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId r = g.Un(UnaryKind::kTanh, g.In(DType::kBF16, {-1, 128}));
  const ValueId one = g.Cast(Linear(&g, x, 128, 64, false, Activation::kIdentity), DType::kBF16);
  // Of another layout, so that no kernel has both as a pair.
  const ValueId of_io = g.Matmul(x, g.In(DType::kBF16, {64, 128}, true), false);
  const ValueId two = g.Cast(g.Un(UnaryKind::kRelu, of_io), DType::kBF16);
  g.Out(g.Add(g.Add(one, r), two));  // in bf16; both others are read by nobody else
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 2u);
  std::vector<std::string> took = {Absorbed(found.runs[0]), Absorbed(found.runs[1])};
  std::sort(took.begin(), took.end());
  EXPECT_THAT(took, ::testing::ElementsAre("product + relu + residual", "product + residual"));
  const absl::StatusOr<StitchGraph> graph =
      StitchGraph::Make(chain, 32, {found.runs[0], found.runs[1]}, {});
  ASSERT_TRUE(graph.ok()) << graph.status();
}

// A pair whose halves both meet a matrix is one kernel.
TEST(ProductRuns, OfAPairAddAMatrixToEitherHalf) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64}), r = g.In(DType::kBF16, {-1, 128});
  const ValueId one = g.Cast(Linear(&g, x, 128, 64, false, Activation::kIdentity), DType::kBF16);
  const ValueId two = g.Cast(Linear(&g, x, 128, 64, false, Activation::kRelu), DType::kBF16);
  g.Out(g.Add(g.Add(one, r), two));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_TRUE(found.runs[0].matched.sequence[0].pair);
  EXPECT_TRUE(found.runs[0].matched.sequence[0].epilogue.program.whole());
}

// h * z of two products of x whose layouts differ, so that no kernel has both; h is rounded and
// widened. Whichever is found first, neither reads what the other keeps to itself.
TEST(ProductRuns, ReadWhatOtherRunsStoreAloneBehindViews) {
  for (const bool rounded_first : {true, false}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId y = Linear(&g, x, 128, 64, true, Activation::kIdentity);
    const ValueId h = g.Cast(g.Cast(y, DType::kBF16), DType::kF32);
    const ValueId z = g.Matmul(x, g.In(DType::kBF16, {64, 128}, true), false);
    g.Out(g.Cast(rounded_first ? g.Mul(h, z) : g.Mul(z, h), DType::kBF16));
    const Chain chain = g.Finish();
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
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId rounded = g.Cast(Linear(&g, x, 128, 64, true, Activation::kIdentity), DType::kBF16);
  const ValueId h = g.Cast(rounded, DType::kF32);
  g.Out(g.Cast(g.Sub(h, g.Spread(g.Mean(h, 1), h)), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(found.runs[0].end, rounded);
  EXPECT_EQ(found.runs[0].dtype(), DType::kBF16);
}

// rsqrt(mean(x^2) + eps) of each row, [m, 1].
ValueId Statistic(testing::Graph* g, ValueId x) {
  const ValueId wide = g->Cast(x, DType::kF32);
  const ValueId mean = g->Mean(g->Mul(wide, wide), 1);
  return g->Un(UnaryKind::kRsqrt, g->Add(mean, g->Const(1e-6)));
}

ValueId Weight(testing::Graph* g, int64_t n, int64_t k) {
  return g->In(DType::kBF16, {n, k}, true);
}

TEST(ProductRuns, TakeScalarsAndAStatisticOfTheirRows) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId r = Statistic(&g, x);
  const auto product = [&] {
    const ValueId y = g.Matmul(x, Weight(&g, 128, 64));
    return g.Mul(g.Mul(y, g.Const(0.125)), g.Spread(r, y));
  };
  const ValueId gate = *AddSilu(g.builder(), product());
  g.Out(g.Cast(g.Mul(gate, product()), DType::kBF16));
  const Chain chain = g.Finish();
  const ProductRuns found = FindProductRuns(chain, 32);
  ASSERT_EQ(found.runs.size(), 1u);
  const GraphRun& run = found.runs[0];
  EXPECT_EQ(Absorbed(run), "gated pair * 0.125 * row factor + silu");
  const ValueId factor = run.matched.ValueOf(run.matched.NumberOf(0, Role::kFactor));
  EXPECT_EQ(chain.op(factor).unary, UnaryKind::kRsqrt) << "what is spread lies in memory";
  const absl::StatusOr<StitchGraph> graph = StitchGraph::Make(chain, 32, {run}, {});
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(graph->StoredDType(factor), DType::kF32) << "and not as the weights are";
}

// A folded batch norm; its scale may be what another kernel has computed.
TEST(ProductRuns, TakeAScaleOfTheirColumns) {
  for (const bool computed : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    ValueId s = g.In(DType::kF32, {128}, true);
    if (computed) {
      s = g.Mul(s, s);
      g.Out(s);
    }
    const ValueId y = g.Matmul(x, Weight(&g, 128, 64));
    const ValueId scaled = g.Mul(y, g.Spread(s, y));
    const ValueId sum = g.Add(scaled, g.Spread(g.In(DType::kBF16, {128}, true), scaled));
    g.Out(g.Cast(*AddSilu(g.builder(), sum), DType::kBF16));
    const Chain chain = g.Finish();
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
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId norm = *AddRmsNorm(g.builder(), x, 1e-6);  // f32, without gamma
    g.Out(g.Cast(g.Matmul(norm, Weight(&g, 128, 64)), DType::kBF16));
    if (shared) g.Out(g.Cast(norm, DType::kBF16));
    const Chain chain = g.Finish();
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 1u);
    const GraphRun& run = found.runs[0];
    EXPECT_EQ(Absorbed(run), shared ? "product" : "product * row factor");
    const ValueId rows = run.matched.ValueOf(run.matched.rows);
    EXPECT_EQ(chain.op(rows).kind == OpKind::kInput, !shared);
  }
}

TEST(ProductRuns, TakeTheNormOfTheirRowsWhereNobodyElseReadsIt) {
  enum class Other { kNobody, kStatistic, kRounded, kElsewhere };
  for (const Other other :
       {Other::kNobody, Other::kStatistic, Other::kRounded, Other::kElsewhere}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64}), y = g.In(DType::kBF16, {-1, 64});
    const ValueId r = Statistic(&g, other == Other::kElsewhere ? y : x);
    ValueId rows = g.Mul(g.Cast(x, DType::kF32), g.Spread(r, x));
    if (other == Other::kRounded) rows = g.Cast(rows, DType::kBF16);
    const ValueId gate = *AddSilu(g.builder(), g.Matmul(rows, Weight(&g, 128, 64)));
    const ValueId c = g.Mul(gate, g.Matmul(rows, Weight(&g, 128, 64)));
    g.Out(g.Cast(g.Matmul(c, Weight(&g, 64, 128)), DType::kBF16));
    g.Out(g.Un(UnaryKind::kTanh, y));
    if (other == Other::kStatistic) g.Out(r);
    const Chain chain = g.Finish();
    const ProductRuns found = FindProductRuns(chain, 32, nullptr, {true, true});
    ASSERT_EQ(found.runs.size(), 1u);
    const bool taken = other == Other::kNobody, rounded = other == Other::kRounded;
    EXPECT_EQ(Absorbed(found.runs[0]), absl::StrCat("gated pair",
                                                    taken     ? " * row norm"
                                                    : rounded ? ""
                                                              : " * row factor",
                                                    " + silu, product"));
    EXPECT_EQ(HasNorm(found.runs[0].matched.sequence), taken);
    EXPECT_FALSE(HasNorm(FindProductRuns(chain, 32).runs[0].matched.sequence));
    EXPECT_TRUE(MayTakeNorms(chain, 64));
    EXPECT_FALSE(MayTakeNorms(chain, 96));
  }
}

// A cast says where rows are rounded: then a product reads what was rounded.
TEST(ProductRuns, LeaveRowsThatTheChainRoundsBehindTheirFactor) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId norm = g.Cast(*AddRmsNorm(g.builder(), x, 1e-6), DType::kBF16);
  g.Out(g.Cast(g.Matmul(norm, Weight(&g, 128, 64)), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(Absorbed(found.runs[0]), "product");
}

// x is f32 in the chain: handed to a product it would be rounded, and so would what else reads it.
TEST(ProductRuns, LeaveRowsThatAreNotInMemoryAsTheWeightsAre) {
  testing::Graph g;
  const ValueId x = g.Add(g.In(DType::kF32, {-1, 64}), g.In(DType::kF32, {-1, 64}));
  const ValueId norm = *AddRmsNorm(g.builder(), x, 1e-6);
  g.Out(g.Cast(g.Matmul(norm, Weight(&g, 128, 64)), DType::kBF16));
  g.Out(x);
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(Absorbed(found.runs[0]), "product");
}

// What a product hands over is rounded to the weights' dtype; a factor is read as the chain has it.
TEST(ProductRuns, LeaveAFactorThatAProductHandsOver) {
  for (const bool sigmoid : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId y = g.Matmul(x, Weight(&g, 128, 64));
    ValueId gate = g.Matmul(x, Weight(&g, 1, 64));
    if (sigmoid) gate = g.Un(UnaryKind::kSigmoid, gate);
    g.Out(g.Cast(g.Mul(y, g.Spread(gate, y)), DType::kBF16));
    const Chain chain = g.Finish();
    const ProductRuns found = FindProductRuns(chain, 32);
    ASSERT_EQ(found.runs.size(), 2u);
    std::vector<std::string> took = {Absorbed(found.runs[0]), Absorbed(found.runs[1])};
    std::sort(took.begin(), took.end());
    if (sigmoid) {  // which is the product's that hands the factor over
      EXPECT_THAT(took, ::testing::ElementsAre("product * row factor", "product + sigmoid(y)"));
    } else {
      EXPECT_THAT(took, ::testing::ElementsAre("product", "product"));
    }
  }
}

// It is stored in f32, as the chain has it.
TEST(ProductRuns, TakeASumThatTheChainCarriesOnUnrounded) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64}), r = g.In(DType::kBF16, {-1, 64});
  const ValueId y = Linear(&g, x, 64, 64, false, Activation::kIdentity);
  const ValueId sum = g.Add(y, g.Cast(r, DType::kF32));
  g.Out(g.Cast(sum, DType::kBF16));
  g.Out(g.Cast(*AddRmsNorm(g.builder(), sum, 1e-6), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(Absorbed(found.runs[0]), "product + add(y,to_f32(r))");
  EXPECT_EQ(found.runs[0].dtype(), DType::kF32);
}

TEST(ProductRuns, TakeAResidualOfAnotherDType) {
  for (const bool f32 : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    const ValueId y = Linear(&g, x, 128, 64, false, Activation::kRelu);
    ValueId r = f32 ? g.In(DType::kF32, {-1, 128}) : g.In(DType::kBF16, {-1, 1});
    if (!f32) r = g.Spread(r, y);
    g.Out(g.Cast(g.Add(y, r), DType::kBF16));
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    ASSERT_EQ(found.runs.size(), 1u);
    // A number of each row is no residual, but a program's.
    EXPECT_EQ(Absorbed(found.runs[0]),
              f32 ? "product + add(relu(y),r)" : "product + add(relu(y),s)");
  }
}

// The result may take the place of the residual, not of rows that other blocks still read.
TEST(ProductRuns, StoreOverNothingThatOthersRead) {
  for (const bool over_rows : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64}), r = g.In(DType::kBF16, {-1, 64});
    const ValueId y = Linear(&g, x, 64, 64, false, Activation::kIdentity);
    OutputOptions options;
    options.alias = over_rows ? x : r;
    g.Out(g.Cast(g.Add(y, g.Cast(r, DType::kF32)), DType::kBF16), options);
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    ASSERT_EQ(found.runs.size(), 1u);
    EXPECT_EQ(Absorbed(found.runs[0]), over_rows ? "product" : "product + residual");
  }
}

// Two products have read all of their rows before the second one stores a row of its result.
TEST(ProductRuns, TwoProductsMayStoreOverTheirRows) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId c = Linear(&g, x, 128, 64, false, Activation::kRelu);
  const ValueId y = Linear(&g, c, 64, 128, false, Activation::kIdentity);
  OutputOptions options;
  options.alias = x;
  g.Out(g.Cast(g.Add(y, g.Cast(x, DType::kF32)), DType::kBF16), options);
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  ASSERT_EQ(found.runs.size(), 1u);
  EXPECT_EQ(Absorbed(found.runs[0]), "product + relu, product + residual");
}

// Its kernel may not read them before the one that computes them has ended.
TEST(ProductRuns, ReadMatricesThatOtherKernelsCompute) {
  for (const bool rounded : {false, true}) {
    testing::Graph g;
    const ValueId x = g.In(DType::kBF16, {-1, 64});
    ValueId w = g.Un(UnaryKind::kTanh, g.In(DType::kBF16, {128, 64}));
    if (rounded) w = g.Cast(w, DType::kBF16);
    g.Out(g.Cast(g.Matmul(x, w), DType::kBF16));
    const ProductRuns found = FindProductRuns(g.Finish(), 32);
    ASSERT_EQ(found.runs.size(), 1u) << found.refused.begin()->second;
    EXPECT_EQ(Absorbed(found.runs[0]), "product");
    EXPECT_FALSE(found.runs[0].matched.weights_constant);
  }
}

TEST(ProductRuns, SayWhyAProductIsInNone) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId y = g.Un(UnaryKind::kTanh, g.In(DType::kF32, {128, 64}));
  g.Out(g.Cast(g.Matmul(x, y), DType::kBF16));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
  EXPECT_TRUE(found.runs.empty());
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_THAT(found.refused.begin()->second, HasSubstr("f32"));
}

// Alone and beside another output, with and without an activation.
TEST(ProductRuns, AResultThatTheChainGivesOutInF32IsStoredInF32) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const bool beside : {false, true}) {
      for (const Activation act : {Activation::kIdentity, Activation::kRelu}) {
        testing::Graph g;
        const ValueId x = g.In(dtype, {-1, 64});
        ValueId y = g.Matmul(x, g.In(dtype, {128, 64}, true));
        if (act == Activation::kRelu) y = g.Un(UnaryKind::kRelu, y);
        g.Out(y);
        if (beside) g.Out(g.Un(UnaryKind::kAbs, x));
        const ProductRuns found = FindProductRuns(g.Finish(), 32);
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

// The kernel of two products stores 16 bits: the last one is then alone.
TEST(ProductRuns, TheLastOfSeveralProductsStoresF32Alone) {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 64});
  const ValueId c = g.Matmul(x, g.In(DType::kBF16, {128, 64}, true));
  g.Out(g.Matmul(c, g.In(DType::kBF16, {64, 128}, true)));
  const ProductRuns found = FindProductRuns(g.Finish(), 32);
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
