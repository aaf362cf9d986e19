// Bad products with matrices that ids name: every case with its exact message.
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

constexpr char kGroupedValues[] =
    "a: bf16[M,16]; w: const bf16[4,8,16]; ids: s32[M,2]; x: bf16[M,2,16]; f: f32[M,2]; "
    "w2: const bf16[4,24,4]; fixed: const s32[5,2]; b: bf16[5,16]";

TEST(GroupedMatmul, RefusesBadCallsWithTheirMessage) {
  ExpectRefusedCalls("grouped", kGroupedValues);
}
TEST(GroupedMatmulByEnds, RefusesBadCallsWithTheirMessage) {
  ExpectRefusedCalls("grouped by ends", kGroupedValues);
}

TEST(GroupedGatedFfn, RefusesBadCallsWithTheirMessageAndAddsNothing) {
  ExpectRefusedCalls("grouped gated ffn", kGroupedValues);
  ChainReader r(kGroupedValues);
  const GroupedFfnOptions options{Activation::kSilu, static_cast<Layout>(3)};
  EXPECT_EQ(AddGroupedGatedFfn(r.builder(), {0, 2, 4, 1, 5}, options).status().message(),
            "op 8 (grouped_gated_ffn): layout is 3, must be oi or io");
  EXPECT_EQ(r.builder().size(), 8);
}

TEST(GroupedKinds, RefuseBadTextWithItsMessage) { ExpectRefusedLines("lines of experts"); }

TEST(ScaledGroupedMatmul, RefusesBadCallsWithTheirMessage) {
  ExpectRefusedCalls("scaled grouped",
                     "a: e4m3[M,256]; w: e4m3[4,200,256]; ids: s32[M,2]; scale_a: f32[M,2]; "
                     "scale_w: f32[4,2,2]; slots: e4m3[M,2,256]");
}

TEST(ScaledGroupedMatmul, RefusesOperandsThatAreNotThere) {
  ChainBuilder b;
  ASSERT_TRUE(b.Input({DType::kE4M3, {Dim::M(), C(256)}}).ok());
  EXPECT_EQ(b.ScaledGroupedMatmul(0, 0, 0, 7, 0).status().message(),
            "op 1 (scaled_grouped_matmul): scale_a is value 7, must be in [0, 0]");
  const auto text = [](const char* line) {
    return std::string(ParseProblem(line).status().message());
  };
  EXPECT_EQ(
      text("scaled_grouped_matmul m=M experts=4 top=2 n=8 k=200 scales=group"),
      "scaled_grouped_matmul: columns of a are 200, must be a multiple of 128 for scales=group");
  EXPECT_EQ(text("scaled_grouped_matmul m=M experts=4 top=2 n=8 k=256 codes=s8"),
            "scaled_grouped_matmul: codes is s8, must be e4m3");
  EXPECT_EQ(
      text("scaled_grouped_gated_ffn m=M experts=4 top=2 n=96 k=256 l=8 act=silu quantize=group"),
      "scaled_grouped_gated_ffn: op 8 (scaled_grouped_gated_ffn): the quantising of c: x is "
      "f32[M,2,96], its last dimension must be a constant multiple of 128");
}

TEST(ScaledGroupedMatmul, OfJsonIsRefusedWithItsMessage) {
  const auto message = [](const std::string& op) {
    const auto read = ChainFromJson(
        R"({"schema":1,"inputs":[{"id":0,"dtype":"e4m3","dims":["M",128]},)"
        R"({"id":1,"dtype":"e4m3","dims":[4,8,128]},{"id":2,"dtype":"s32","dims":["M",2]},)"
        R"({"id":3,"dtype":"f32","dims":[]}],"ops":[{"id":4,"op":"grouped_matmul",)" +
        op + R"(}],"outputs":[{"value":4}]})");
    return std::string(read.status().message());
  };
  EXPECT_EQ(message(R"("in":[0,1,2,3,3],"transpose_b":true)"), "");
  EXPECT_EQ(message(R"("in":[0,1,2,3,3])"),
            "ops[0]: op 4 (grouped_matmul): transpose_b is false, must be true with scales: w is "
            "[experts, n, k]");
  EXPECT_EQ(message(R"("in":[0,1,2,3],"transpose_b":true)"),
            "ops[0]: op 4 (grouped_matmul): operands are 4, must be 3, or 5 with scales");
}

}  // namespace
}  // namespace sinter
