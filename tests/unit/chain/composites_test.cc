// Composites expand to the primitives that their definitions name.
#include "tests/support/chains.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

class CompositesTest : public ::testing::Test {
 protected:
  ValueId In(std::vector<Dim> dims, DType dtype = DType::kBF16) {
    return *b_.Input({dtype, std::move(dims)});
  }
  std::string Type(const absl::StatusOr<ValueId>& id) {
    return id.ok() ? ToString(b_.TypeOf(*id)) : std::string(id.status().message());
  }
  ChainBuilder b_;
};

TEST_F(CompositesTest, GiveUnroundedF32) {
  const ValueId x = In({Dim::M(), C(12)}), v = In({C(12)});
  for (Activation act : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
    EXPECT_EQ(Type(AddActivation(b_, act, x)), "f32[M,12]");
  }
  EXPECT_EQ(*AddActivation(b_, Activation::kIdentity, x), x);
  EXPECT_EQ(Type(AddActivation(b_, Activation::kRelu, x)), "bf16[M,12]");
  EXPECT_EQ(Type(AddSwiglu(b_, x, x)), "f32[M,12]");
  EXPECT_EQ(Type(AddSoftmax(b_, x, 0, 0.125, v)), "f32[M,12]");
  EXPECT_EQ(Type(AddLayerNorm(b_, x, 1e-5, v, v)), "f32[M,12]");
  EXPECT_EQ(Type(AddRmsNorm(b_, x, 1e-5)), "f32[M,12]");
  EXPECT_EQ(Type(AddRope(b_, x, In({C(6)}), In({Dim::M(), C(6)}))), "f32[M,12]");
  const LstmResult lstm = *AddLstmCell(b_, x, In({Dim::M(), C(3)}));
  EXPECT_EQ(Type(lstm.h), "f32[M,3]");
  EXPECT_EQ(Type(lstm.c), "f32[M,3]");
  EXPECT_EQ(Type(AddGruCell(b_, x, x, In({Dim::M(), C(4)}))), "f32[M,4]");
}

TEST_F(CompositesTest, FfnsRoundOnlyTheirResult) {
  FfnSpec spec;
  spec.n = 4, spec.k = 8, spec.l = 2;
  spec.act = Activation::kSilu;
  for (bool gated : {false, true}) {
    for (int products : {1, 2}) {
      spec.gated = gated;
      spec.products = products;
      const Chain chain = *MakeFfnChain(spec);
      int casts = 0;
      for (const Op& op : chain.ops()) casts += op.kind == OpKind::kCast;
      EXPECT_EQ(casts, 1);
      EXPECT_EQ(chain.op(chain.outputs()[0].value).kind, OpKind::kCast);
      EXPECT_EQ(ToString(chain.output_type(0)), products == 2 ? "bf16[M,2]" : "bf16[M,4]");
      EXPECT_EQ(chain.num_inputs(), 1 + products + (gated ? 1 : 0));
      for (int i = 1; i < chain.num_inputs(); ++i) EXPECT_TRUE(chain.input_op(i).constant);
      EXPECT_FALSE(chain.input_op(0).constant);
    }
  }
}

TEST_F(CompositesTest, LayoutDecidesHowWeightsLie) {
  FfnSpec spec;
  spec.n = 4, spec.k = 8, spec.l = 2;
  const Chain oi = *MakeFfnChain(spec);
  EXPECT_EQ(ToString(oi.input_op(1).type), "bf16[4,8]");
  EXPECT_EQ(ToString(oi.input_op(2).type), "bf16[2,4]");
  spec.layout = Layout::kIO;
  const Chain io = *MakeFfnChain(spec);
  EXPECT_EQ(ToString(io.input_op(1).type), "bf16[8,4]");
  EXPECT_EQ(ToString(io.input_op(2).type), "bf16[4,2]");
}

}  // namespace
}  // namespace sinter
