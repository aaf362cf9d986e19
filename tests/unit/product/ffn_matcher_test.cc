// Matcher: FFNs in every variant, as the builder makes them and as callers may spell them.
#include "src/product/matcher.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

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
  // Widened operands, a transposed and back weight, the bias on the left, sigmoid(x) * x, a rounded
  // C.
  const MatchedSequence v = Got(MatchProducts(
      ReadChain("w1: const bf16[16,24]; a: bf16[7,16]; w2: const bf16[24,8]; bias: const bf16[24];"
                "x = spread(f32(bias), [7,24]) + f32(a) @ transpose(w1, 1, 0).T;"
                "out bf16(bf16(sigmoid(x) * x) @ w2)")));
  EXPECT_EQ(v.m, Dim::Constant(7));
  EXPECT_EQ(v.sequence.ToString(),
            "gemm_chain n=24 k=16 l=8 act=silu bias1=1 layout=io dtype=bf16");
  EXPECT_TRUE(v.inputs[0].rounds);
}

TEST(MatchFfn, SeesAMergedGateUpWeightAsTwoPointersIntoIt) {
  const MatchedSequence v = *MatchProducts(
      ReadChain("a: f16[M,16] strides(32, 1); gate, up: const f16[16,24] strides(48, 1);"
                "down: f16[24,8];"
                "out gated_ffn(a, gate, up, none, none, down, none, silu, layout=io)"));
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

TEST(MatchFfn, RefusesOtherChainsWithTheReason) {
  for (const auto& [chain, message] : RefusalsOf("tests/unit/product/refused_chains.txt", "ffns")) {
    EXPECT_EQ(MatchProducts(ReadChain(chain)).status().message(), message) << chain;
  }
}

}  // namespace
}  // namespace sinter
