// JSON of chains: both ways, for every kind of op.
#include <gtest/gtest.h>

#include "src/chain/builder.h"
#include "src/chain/chain_json.h"
#include "src/chain/problem.h"

namespace sinter {
namespace {

void ExpectRoundTrip(const Chain& chain) {
  const std::string json = ChainToJson(chain);
  const absl::StatusOr<Chain> back = ChainFromJson(json);
  ASSERT_TRUE(back.ok()) << back.status() << "\n" << json;
  EXPECT_EQ(*back, chain);
  EXPECT_EQ(back->InputOrder(), chain.InputOrder());
  EXPECT_EQ(ChainToJson(*back), json);
}

TEST(ChainJson, RoundTripsEveryTextKind) {
  for (const char* line :
       {"gemm_chain m=1 n=8 k=8 l=8 act=gelu_tanh bias1=1 bias2=1",
        "gated_ffn m=1 n=8 k=8 l=8 act=gelu_erf bias1=1 bias2=1 layout=io",
        "gate_up m=1 n=8 k=8 act=silu", "layernorm rows=1 cols=8", "masked_softmax rows=1 cols=8",
        "residual_rmsnorm rows=1 cols=8", "rope rows=1 heads=2 dim=8", "lstm_cell rows=1 hidden=8",
        "gru_cell rows=1 hidden=8", "bias_gelu_residual_layernorm rows=1 cols=8"}) {
    ExpectRoundTrip(ParseProblem(line)->chain);
  }
}

TEST(ChainJson, KeepsTheCallersOrderAndNames) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::M()}};
  const ValueId y = *b.Input(type, {false, {}, "why \"quoted\""}), x = *b.Input(type);
  ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kSub, x, y)).ok());
  const Chain chain = *b.Finish();
  ExpectRoundTrip(chain);
  const Chain back = *ChainFromJson(ChainToJson(chain));
  EXPECT_EQ(back.InputName(0), "why \"quoted\"");
  EXPECT_EQ(back.InputName(1), "");
  EXPECT_EQ(back.InputOrder(), (std::vector<int32_t>{1, 0}));
}

TEST(ChainJson, KeepsInfinitiesAndEveryBitOfAScalar) {
  for (double value : {HUGE_VAL, -HUGE_VAL, -0.0, 1e-5, 0.1, 3.4028234663852886e38, 1e-45}) {
    ChainBuilder b;
    const ValueId x = *b.Input({DType::kF32, {Dim::M()}});
    ASSERT_TRUE(b.Output(*b.Binary(BinaryKind::kAdd, x, *b.Scalar(value))).ok());
    ExpectRoundTrip(*b.Finish());
  }
}

}  // namespace
}  // namespace sinter
