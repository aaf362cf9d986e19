// FfnView: recognised from primitives alone, in every variant; everything else is refused with its
// reason.
#include "src/chain/ffn_view.h"

#include <gtest/gtest.h>

#include <functional>

#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

// All 5 x 2 x 2 x 2 x 2 x 2 x 3 specs.
std::vector<FfnSpec> AllSpecs() {
  std::vector<FfnSpec> specs;
  for (Activation act : kActivations) {
    for (int bits = 0; bits < 32; ++bits) {
      FfnSpec s;
      s.act = act;
      s.gated = bits & 1;
      s.products = bits & 2 ? 2 : 1;
      s.layout = bits & 4 ? Layout::kIO : Layout::kOI;
      s.bias1 = bits & 8;
      s.bias2 = bits & 16 && s.products == 2;
      s.dtype = bits % 3 == 0 ? DType::kF32 : (bits % 3 == 1 ? DType::kF16 : DType::kBF16);
      s.n = 24, s.k = 16, s.l = 8;
      specs.push_back(s);
    }
  }
  return specs;
}

TEST(ViewAsFfn, ReadsBackEverySpec) {
  for (const FfnSpec& s : AllSpecs()) {
    const Chain chain = *MakeFfnChain(s);
    const absl::StatusOr<FfnView> v = ViewAsFfn(chain);
    ASSERT_TRUE(v.ok()) << v.status() << "\n" << chain.ToString();
    EXPECT_EQ(v->gated, s.gated);
    EXPECT_EQ(v->products, s.products);
    EXPECT_EQ(v->act, s.act);
    EXPECT_EQ(v->layout, s.layout);
    EXPECT_EQ(v->dtype, s.dtype);
    EXPECT_EQ(v->bias1, s.bias1);
    EXPECT_EQ(v->bias2, s.bias2);
    EXPECT_TRUE(v->m.symbolic);
    EXPECT_EQ(v->n, 24);
    EXPECT_EQ(v->k, 16);
    EXPECT_EQ(v->l, s.products == 2 ? 8 : 0);
    EXPECT_TRUE(v->contiguous);
    EXPECT_TRUE(v->weights_constant);
    EXPECT_FALSE(v->rounds_c);
    EXPECT_EQ(v->OutputColumns(), s.products == 2 ? 8 : 24);
  }
}

TEST(ViewAsFfn, RolesPointAtTheCallersInputs) {
  for (const FfnSpec& s : AllSpecs()) {
    const Chain chain = *MakeFfnChain(s);
    const FfnView v = *ViewAsFfn(chain);
    const auto name = [&](int i) { return i < 0 ? "" : chain.InputName(chain.InputOrder()[i]); };
    EXPECT_EQ(name(v.a), "a");
    EXPECT_EQ(name(v.w1), s.gated ? "w_gate" : "w1");
    EXPECT_EQ(name(v.w_up), s.gated ? "w_up" : "");
    EXPECT_EQ(name(v.b1), !s.bias1 ? "" : (s.gated ? "b_gate" : "b1"));
    EXPECT_EQ(name(v.b_up), s.gated && s.bias1 ? "b_up" : "");
    EXPECT_EQ(name(v.w2).substr(0, 1), s.products == 2 ? "w" : "");
    EXPECT_EQ(name(v.b2), s.bias2 ? "b2" : "");
  }
}

TEST(ViewAsFfn, ItsTextReadsBackAsTheSameChain) {
  for (const FfnSpec& s : AllSpecs()) {
    const Chain chain = *MakeFfnChain(s);
    const absl::StatusOr<Problem> problem = ParseProblem(ToString(*ViewAsFfn(chain)));
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(problem->chain, chain);
  }
}

TEST(ViewAsFfn, AcceptsOtherSpellings) {
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
  ASSERT_TRUE(b.Output(*b.Cast(*b.Matmul(rounded, w2), DType::kBF16)).ok());
  const absl::StatusOr<FfnView> v = ViewAsFfn(*b.Finish());
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(ToString(*v), "gemm_chain m=7 n=24 k=16 l=8 act=silu layout=io dtype=bf16 bias1=1");
  EXPECT_TRUE(v->rounds_c);
}

TEST(ViewAsFfn, SeesAMergedGateUpWeightAsTwoPointersIntoIt) {
  ChainBuilder b;
  const InputOptions half{true, {{48, 0}, {1, 0}}, ""};
  GatedFfnOperands in;
  in.a = *b.Input({DType::kF16, {Dim::M(), C(16)}}, {false, {{32, 0}, {1, 0}}, ""});
  in.w_gate = *b.Input({DType::kF16, {C(16), C(24)}}, half);
  in.w_up = *b.Input({DType::kF16, {C(16), C(24)}}, half);
  in.w_down = *b.Input({DType::kF16, {C(24), C(8)}});
  ASSERT_TRUE(b.Output(*AddGatedFfn(b, in, Activation::kSilu, Layout::kIO)).ok());
  const FfnView v = *ViewAsFfn(*b.Finish());
  EXPECT_FALSE(v.contiguous);
  EXPECT_FALSE(v.weights_constant);
  EXPECT_EQ(v.ld_a, 32);
  EXPECT_EQ(v.ld_w1, 48);
  EXPECT_EQ(v.ld_w_up, 48);
  EXPECT_EQ(v.ld_w2, 8);
  EXPECT_EQ(v.ld_out, 8);
}

// A residual behind every kind of FFN, rounded before the sum or not.
TEST(ViewAsFfn, ReadsBackResiduals) {
  for (FfnSpec s : AllSpecs()) {
    s.residual = true;
    for (const bool rounds : {false, true}) {
      s.rounds_sum = rounds;
      const Chain chain = *MakeFfnChain(s);
      const absl::StatusOr<FfnView> v = ViewAsFfn(chain);
      ASSERT_TRUE(v.ok()) << v.status() << "\n" << chain.ToString();
      ASSERT_GE(v->residual, 0);
      EXPECT_EQ(chain.InputName(chain.InputOrder()[v->residual]), "residual");
      EXPECT_EQ(v->ld_residual, v->OutputColumns());
      // A cast of f32 to f32 rounds nothing, and is seen as one that widens.
      EXPECT_EQ(v->rounds_e, rounds && s.dtype != DType::kF32);
      EXPECT_EQ(v->products, s.products);
      EXPECT_EQ(v->act, s.act);
      EXPECT_EQ(v->bias1, s.bias1);
      EXPECT_EQ(v->bias2, s.bias2);
      EXPECT_TRUE(v->weights_constant) << "a residual is no weight";
      const ProductsView direct = *ViewAsProducts(chain), back = ProductsOf(*v);
      EXPECT_EQ(back.steps.back().residual, direct.steps.back().residual);
      EXPECT_EQ(back.steps.back().rounds_sum, direct.steps.back().rounds_sum);
      EXPECT_EQ(back.steps.back().ld_residual, direct.steps.back().ld_residual);
    }
  }
}

TEST(ViewAsFfn, NoSpecRoundsASumThatItHasNot) {
  FfnSpec s;
  s.n = s.k = s.l = 8;
  s.rounds_sum = true;
  EXPECT_EQ(MakeFfnChain(s).status().message(), "rounds_sum is set, but there is no residual");
}

struct Refused {
  const char* what;
  std::function<void(ChainBuilder&)> make;
  const char* message;
};

void Ffn(ChainBuilder& b, DType w2_dtype, Layout second, InputOptions a_options = {}) {
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}}, a_options);
  const ValueId w1 = *b.Input({DType::kBF16, {C(16), C(16)}});
  const ValueId w2 = *b.Input({w2_dtype, {C(16), C(16)}});
  const ValueId c = *AddLinear(b, a, w1, kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId e = *AddLinear(b, c, w2, kNoValue, second);
  ASSERT_TRUE(b.Output(*b.Cast(e, DType::kBF16)).ok());
}

TEST(ViewAsFfn, RefusesOtherChainsWithTheReason) {
  const Refused cases[] = {
      {"no product",
       [](ChainBuilder& b) {
         const ValueId x = *b.Input({DType::kF32, {Dim::M(), C(4)}});
         ASSERT_TRUE(b.Output(*b.Unary(UnaryKind::kTanh, x)).ok());
       },
       "not an ffn: op 1 (tanh) is no activation of a product with a weight, nor a gated pair"},
      {"an input",
       [](ChainBuilder& b) {
         ASSERT_TRUE(b.Output(*b.Input({DType::kF32, {C(2), C(4)}})).ok());
       },
       "not an ffn: the output is an input"},
      {"rank 1",
       [](ChainBuilder& b) {
         ASSERT_TRUE(b.Output(*b.Input({DType::kF32, {C(4)}})).ok());
       },
       "not an ffn: the output is f32[4], its rank must be 2"},
      {"mixed layouts", [](ChainBuilder& b) { Ffn(b, DType::kBF16, Layout::kIO); },
       "not an ffn: w2 is io, w1 oi: all weights must be alike"},
      {"mixed dtypes", [](ChainBuilder& b) { Ffn(b, DType::kF32, Layout::kOI); },
       "not an ffn: dtype of w2 is f32, of a bf16"},
      {"strided columns",
       [](ChainBuilder& b) {
         Ffn(b, DType::kBF16, Layout::kOI, {false, {{1, 0}, {64, 0}}, ""});
       },
       "not an ffn: strides of a are [1,64], must be [at least 16,1]"},
      {"f32 result of bf16",
       [](ChainBuilder& b) {
         const ValueId a = *b.Input({DType::kBF16, {Dim::M(), C(16)}});
         const ValueId w = *b.Input({DType::kBF16, {C(16), C(16)}});
         ASSERT_TRUE(b.Output(*AddLinear(b, a, w, kNoValue, Layout::kOI)).ok());
       },
       "not an ffn: the output is f32, the inputs are bf16"},
      {"gate and up of different activations",
       [](ChainBuilder& b) {
         const ValueId a = *b.Input({DType::kF32, {Dim::M(), C(16)}});
         const ValueId g = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId u = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId gate = *AddLinear(b, a, g, kNoValue, Layout::kOI, Activation::kSilu);
         const ValueId up = *AddLinear(b, gate, u, kNoValue, Layout::kOI);
         ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kMul, gate, up)).ok());
       },
       "not an ffn: op 7 (mul) is no activation of a product with a weight, nor a gated pair"},
      {"one bias of a pair",
       [](ChainBuilder& b) {
         const ValueId a = *b.Input({DType::kF32, {Dim::M(), C(16)}});
         const ValueId g = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId u = *b.Input({DType::kF32, {C(16), C(16)}});
         const ValueId bias = *b.Input({DType::kF32, {C(16)}});
         const ValueId gate = *AddLinear(b, a, g, bias, Layout::kOI, Activation::kSilu);
         const ValueId up = *AddLinear(b, a, u, kNoValue, Layout::kOI);
         ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kMul, gate, up)).ok());
       },
       "not an ffn: one of gate and up has a bias"},
  };
  for (const Refused& refused : cases) {
    ChainBuilder b;
    refused.make(b);
    EXPECT_EQ(ViewAsFfn(*b.Finish()).status().message(), refused.message) << refused.what;
  }
}

}  // namespace
}  // namespace sinter
