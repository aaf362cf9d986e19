// Matcher: FFNs in every variant, as the builder makes them and as callers may spell them.
#include "src/product/matcher.h"
#include "tests/support/chains.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// All 5 x 2 x 2 x 2 x 2 x 2 x 3 specs.
std::vector<FfnSpec> AllSpecs() {
  std::vector<FfnSpec> specs;
  for (Activation act : kActivations) {
    for (int bits = 0; bits < 32; ++bits) {
      FfnSpec s{.gated = (bits & 1) != 0,
                .products = bits & 2 ? 2 : 1,
                .act = act,
                .layout = bits & 4 ? Layout::kIO : Layout::kOI,
                .bias1 = (bits & 8) != 0};
      s.bias2 = bits & 16 && s.products == 2;
      s.dtype = bits % 3 == 0 ? DType::kF32 : (bits % 3 == 1 ? DType::kF16 : DType::kBF16);
      s.n = 24, s.k = 16, s.l = 8;
      specs.push_back(s);
    }
  }
  return specs;
}

TEST(MatchFfn, ReadsBackEverySpec) {
  for (const FfnSpec& s : AllSpecs()) {
    const Chain chain = *MakeFfnChain(s);
    const MatchedSequence v = Got(MatchProducts(chain), chain.ToString());
    ASSERT_EQ(v.size(), s.products);
    const MatrixProduct &first = v.sequence.front(), &last = v.sequence.back();
    EXPECT_EQ(first.pair, s.gated);
    EXPECT_EQ(first.epilogue.activation(), s.act);
    EXPECT_EQ(v.sequence.layout(), s.layout);
    EXPECT_EQ(v.sequence.element(), s.dtype);
    EXPECT_EQ(first.epilogue.bias().has_value(), s.bias1);
    EXPECT_TRUE(v.m.symbolic);
    EXPECT_EQ(first.n, 24);
    EXPECT_EQ(first.k, 16);
    EXPECT_EQ(last.n, s.products == 2 ? 8 : 24);
    EXPECT_TRUE(v.contiguous);
    EXPECT_TRUE(v.weights_constant);
    if (s.products == 1) continue;
    EXPECT_EQ(last.epilogue.bias().has_value(), s.bias2);
    EXPECT_FALSE(v.inputs[0].rounds);
    EXPECT_TRUE(CanPair(v.sequence, 0));
  }
}

TEST(MatchFfn, RolesPointAtTheCallersInputs) {
  for (const FfnSpec& s : AllSpecs()) {
    const Chain chain = *MakeFfnChain(s);
    const MatchedSequence v = *MatchProducts(chain);
    const auto name = [&](int i) { return i < 0 ? "" : chain.InputName(chain.InputOrder()[i]); };
    const ProductInputs& in = v.inputs[0];
    EXPECT_EQ(name(v.rows), "a");
    EXPECT_EQ(name(in.weights), s.gated ? "w_gate" : "w1");
    EXPECT_EQ(name(in.weights_up), s.gated ? "w_up" : "");
    EXPECT_EQ(name(v.NumberOf(0, Role::kBias)), !s.bias1 ? "" : (s.gated ? "bias_gate" : "bias1"));
    EXPECT_EQ(name(v.NumberOf(0, Role::kBiasUp)), s.gated && s.bias1 ? "bias_up" : "");
    if (s.products == 1) continue;
    EXPECT_EQ(name(v.inputs[1].weights).substr(0, 1), "w");
    EXPECT_EQ(name(v.NumberOf(1, Role::kBias)), s.bias2 ? "bias2" : "");
  }
}

TEST(MatchFfn, AcceptsOtherSpellings) {
  ChainBuilder b;
  const ValueId w1 = *b.Input({DType::kBF16, {C(16), C(24)}}, {true, {}, ""});
  const ValueId a = *b.Input({DType::kBF16, {C(7), C(16)}});
  const ValueId w2 = *b.Input({DType::kBF16, {C(24), C(8)}}, {true, {}, ""});
  const ValueId bias = *b.Input({DType::kBF16, {C(24)}}, {true, {}, ""});
  // Widened operands, a transposed and back weight, the bias on the left, sigmoid(x) * x, a rounded
  // C.
  const ValueId wide = *b.Cast(a, DType::kF32);
  const ValueId turned = *b.Transpose(w1, {1, 0});
  const ValueId product = *b.Matmul(wide, turned, false, true);
  const ValueId spread = *b.Broadcast(*b.Cast(bias, DType::kF32), {C(7), C(24)});
  const ValueId x = *b.Binary(BinaryKind::kAdd, spread, product);
  const ValueId c = *b.Binary(BinaryKind::kMul, *b.Unary(UnaryKind::kSigmoid, x), x);
  const ValueId rounded = *b.Cast(c, DType::kBF16);
  const MatchedSequence v =
      Got(MatchProducts(Finished(b, {*b.Cast(*b.Matmul(rounded, w2), DType::kBF16)})));
  EXPECT_EQ(v.m, Dim::Constant(7));
  EXPECT_EQ(v.sequence.ToString(),
            "gemm_chain n=24 k=16 l=8 act=silu bias1=1 layout=io dtype=bf16");
  EXPECT_TRUE(v.inputs[0].rounds);
}

TEST(MatchFfn, SeesAMergedGateUpWeightAsTwoPointersIntoIt) {
  ChainBuilder b;
  const InputOptions half{true, {{48, 0}, {1, 0}}, ""};
  const MatchedSequence v = *MatchProducts(
      Finished(b, {*AddGatedFfn(b,
                                {.a = *b.Input({DType::kF16, {Dim::M(), C(16)}},
                                               {false, {{32, 0}, {1, 0}}, ""}),
                                 .w_gate = *b.Input({DType::kF16, {C(16), C(24)}}, half),
                                 .w_up = *b.Input({DType::kF16, {C(16), C(24)}}, half),
                                 .w_down = *b.Input({DType::kF16, {C(24), C(8)}})},
                                Activation::kSilu, Layout::kIO)}));
  EXPECT_FALSE(v.contiguous);
  EXPECT_FALSE(v.weights_constant);
  EXPECT_EQ(v.rows_stride, 32);
  EXPECT_EQ(v.inputs[0].weights_stride, 48);
  EXPECT_EQ(v.inputs[0].weights_up_stride, 48);
  EXPECT_EQ(v.inputs[1].weights_stride, 8);
  EXPECT_EQ(v.output_stride, 8);
}

// A residual after every kind of FFN, rounded before the sum or not.
TEST(MatchFfn, ReadsBackResiduals) {
  for (FfnSpec s : AllSpecs()) {
    s.residual = true;
    for (const bool rounds : {false, true}) {
      s.rounds_sum = rounds;
      s.sum_act = rounds ? s.act : Activation::kIdentity;
      const Chain chain = *MakeFfnChain(s);
      const MatchedSequence v = Got(MatchProducts(chain), chain.ToString());
      const ProductInputs& in = v.inputs.back();
      const MatrixProduct& last = v.sequence.back();
      const int residual = v.NumberOf(v.size() - 1, Role::kResidual);
      ASSERT_GE(residual, 0);
      EXPECT_EQ(chain.InputName(chain.InputOrder()[residual]), "residual");
      EXPECT_EQ(in.residual_stride, last.n);
      EXPECT_TRUE(last.epilogue.has_residual());
      EXPECT_EQ(v.size(), s.products);
      EXPECT_EQ(last.epilogue.program.whole(), s.dtype == DType::kF32);
      if (s.dtype == DType::kF32) continue;  // forms have sums of 16 bits
      EXPECT_EQ(last.epilogue.form().rounds, rounds);
      EXPECT_EQ(v.sequence.front().epilogue.activation(), s.act);
      EXPECT_EQ(last.epilogue.sum_activation(), s.sum_act);
      EXPECT_TRUE(v.weights_constant) << "a residual is not a weight";
    }
  }
}

TEST(MatchFfn, NoSpecRoundsASumThatItHasNot) {
  FfnSpec s{.n = 8, .k = 8, .l = 8, .rounds_sum = true};
  EXPECT_EQ(MakeFfnChain(s).status().message(), "rounds_sum is set, but there is no residual");
  s.rounds_sum = false;
  s.sum_act = Activation::kRelu;
  EXPECT_EQ(MakeFfnChain(s).status().message(), "sum_act is set, but there is no residual");
}

struct Refused {
  const char* what;
  std::function<void(ChainBuilder&)> make;
  const char* message;
};

void FfnWith(ChainBuilder& b, DType w2_dtype, Layout second, InputOptions a_options = {}) {
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, a_options);
  const ValueId w1 = *b.Input({DType::kBF16, {C(16), C(16)}});
  const ValueId w2 = *b.Input({w2_dtype, {C(16), C(16)}});
  const ValueId c = *AddLinear(b, a, w1, kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId e = *AddLinear(b, c, w2, kNoValue, second);
  ASSERT_TRUE(b.Output(*b.Cast(e, DType::kBF16)).ok());
}

TEST(MatchFfn, RefusesOtherChainsWithTheReason) {
  const Refused cases[] = {
      {"no product",
       [](ChainBuilder& b) {
         const ValueId x = *b.Input({DType::kF32, {Dim::M(), C(4)}});
         ASSERT_TRUE(b.Output(*b.Unary(UnaryKind::kTanh, x)).ok());
       },
       "op 1 (tanh) has no product with a weight below it"},
      {"an input",
       [](ChainBuilder& b) {
         ASSERT_TRUE(b.Output(*b.Input({DType::kF32, {C(2), C(4)}})).ok());
       },
       "the output is an input"},
      {"rank 1",
       [](ChainBuilder& b) {
         ASSERT_TRUE(b.Output(*b.Input({DType::kF32, {C(4)}})).ok());
       },
       "the output is f32[4], its rank must be at least 2"},
      {"mixed layouts", [](ChainBuilder& b) { FfnWith(b, DType::kBF16, Layout::kIO); },
       "w2 is io, w1 oi: all weights must be alike"},
      {"mixed dtypes", [](ChainBuilder& b) { FfnWith(b, DType::kF32, Layout::kOI); },
       "dtype of w2 is f32, of a bf16"},
      {"strided columns",
       [](ChainBuilder& b) {
         FfnWith(b, DType::kBF16, Layout::kOI, {false, {{1, 0}, {64, 0}}, ""});
       },
       "strides of a are [1,64], must be [at least 16,1]"},
      {"f16 result of bf16",
       [](ChainBuilder& b) {
         const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
         const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}});
         const ValueId y = *AddLinear(b, a, w, kNoValue, Layout::kOI);
         ASSERT_TRUE(b.Output(*b.Cast(y, DType::kF16)).ok());
       },
       "the output is f16, the inputs are bf16: cast it to bf16 or f32"},
      {"gate and up of different activations",
       [](ChainBuilder& b) {
         const ValueId a = *b.Input({DType::kF32, {Dim::M(), C(16)}});
         const ValueId g = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId u = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId gate = *AddLinear(b, a, g, kNoValue, Layout::kOI, Activation::kSilu);
         const ValueId up = *AddLinear(b, gate, u, kNoValue, Layout::kOI);
         ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kMul, gate, up)).ok());
       },
       "op 7 (mul) has products of different rows below it"},
  };
  for (const Refused& refused : cases) {
    ChainBuilder b;
    refused.make(b);
    EXPECT_EQ(MatchProducts(*b.Finish()).status().message(), refused.message) << refused.what;
  }
}

}  // namespace
}  // namespace sinter
