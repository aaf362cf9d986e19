// Bad 8-bit operands, scales and quantisers: every case with its exact message, in the builder, in
// text and in JSON.
#include "src/chain/infer.h"
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

constexpr DType kE4M3 = DType::kE4M3, kF32 = DType::kF32;

constexpr char kScaledValues[] =
    "a: e4m3[M,256]; w: e4m3[300,256]; i: s8[M,64]; j: s8[40,64]; row: f32[M,1]; column: "
    "f32[300,1]; "
    "groups: f32[M,2]; blocks: f32[3,2]; one: f32[]; half: bf16[]; x: bf16[M,300]; "
    "wide: f32[M,256]; vector: f32[300]; small_row: f32[40,1]";

TEST(BadScaled, OperandsAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("operands of 8 bits", kScaledValues);
}
TEST(BadScaled, ProductsAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("products of 8 bits", kScaledValues);
}
TEST(BadScaled, QuantizersAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("quantizers", kScaledValues);
  ChainReader r(kScaledValues);
  const QuantizeSpec spec{.granularity = static_cast<Granularity>(5)};
  EXPECT_EQ(AddQuantize(r.builder(), r["x"], spec).status().message(),
            "op 14 (quantize): granularity is 5, which does not exist");
}
TEST(BadScaled, WeightsOfFourBitsAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("weights of four bits",
                     "w: s8[4,24]; scale: bf16[4,3]; one: f32[]; bytes: s8[4,3]; byte: s8[]; "
                     "turned: s8[4,M]; codes: e4m3[4,24]; zero: bf16[4,3]");
}
TEST(BadScaled, SumsAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("fast sums", kScaledValues);
  ChainReader r(kScaledValues);
  const auto sum =
      r.builder().ScaledMatmul(r["a"], r["w"], r["row"], r["column"], static_cast<Accumulate>(2));
  EXPECT_EQ(sum.status().message(), "op 14 (scaled_matmul): accumulate is 2, which does not exist");
}
TEST(BadScaled, CompositesAreRefusedWithTheirMessage) {
  ExpectRefusedCalls("composites of 8 bits", kScaledValues);
  ChainReader(kScaledValues)
      .Add(
          "w2: e4m3[40,300];"
          "scaled_gated_ffn(a, row, w, column, w, column, w2, small_row, act=silu)");
}

TEST(BadScaled, TextIsRefusedWithItsMessage) { ExpectRefusedLines("lines of 8 bits"); }

TEST(BadScaled, JsonIsRefusedWithItsMessage) {
  const auto with = [](const std::string& op) {
    return R"({"schema":1,"inputs":[{"id":0,"dtype":"e4m3","dims":["M",128]},)"
           R"({"id":1,"dtype":"e4m3","dims":[8,128]},{"id":2,"dtype":"f32","dims":[]}],"ops":[)" +
           op + R"(],"outputs":[{"value":3}]})";
  };
  for (const auto& [op, message] :
       RefusalsOf("tests/unit/chain/refused_calls.txt", "json of 8 bits")) {
    EXPECT_EQ(ChainFromJson(with(op)).status().message(), message);
  }
}

TEST(ScaledMatmul, SaysWhatSharesAScale) {
  const TensorType w{kE4M3, {C(300), C(256)}};
  const auto grain = [&](const std::vector<Dim>& dims) {
    return *GrainOf("scale_w", w, {kF32, dims}, true);
  };
  const auto expect = [&](const std::vector<Dim>& dims, int64_t rows, int64_t k) {
    EXPECT_EQ(grain(dims).rows, rows) << ToString(absl::MakeConstSpan(dims));
    EXPECT_EQ(grain(dims).k, k) << ToString(absl::MakeConstSpan(dims));
  };
  expect({}, 0, 0);
  expect({C(1), C(1)}, 0, 0);
  expect({C(300), C(1)}, 1, 0);
  expect({C(1), C(2)}, 0, 128);
  expect({C(300), C(2)}, 1, 128);
  expect({C(3), C(2)}, 128, 128);
}

}  // namespace
}  // namespace sinter
