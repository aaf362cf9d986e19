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

struct BadText {
  const char* text;
  const char* message;
};

TEST(BadScaled, TextIsRefusedWithItsMessage) { ExpectRefusedLines("lines of 8 bits"); }

TEST(BadScaled, JsonIsRefusedWithItsMessage) {
  const auto with = [](const std::string& op) {
    return R"({"schema":1,"inputs":[{"id":0,"dtype":"e4m3","dims":["M",128]},)"
           R"({"id":1,"dtype":"e4m3","dims":[8,128]},{"id":2,"dtype":"f32","dims":[]}],"ops":[)" +
           op + R"(],"outputs":[{"value":3}]})";
  };
  const BadText cases[] = {
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2]})",
       "ops[0]: op 3 (scaled_matmul): operands are 3, must be 4"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"transpose_b":true})",
       "ops[0].transpose_b: unknown key"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,0]})",
       "ops[0]: op 3 (scaled_matmul): dtype of scale_w is e4m3, must be f32"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"dtype":"bf16"})",
       "ops[0]: type is bf16[M,8], must be f32[M,8]"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"accumulate":"slow"})",
       "ops[0].accumulate: accumulate is slow, must be one of promoted fast"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"accumulate":1})",
       "ops[0].accumulate: must be a string"},
      {R"({"id":3,"op":"matmul","in":[0,1],"accumulate":"fast"})",
       "ops[0].accumulate: unknown key"},
      {R"({"id":3,"op":"matmul","in":[0,1]})", "ops[0]: op 3 (matmul): k of a is 128, k of b is 8"},
  };
  for (const BadText& bad : cases) {
    EXPECT_EQ(std::string(ChainFromJson(with(bad.text)).status().message()), bad.message);
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
