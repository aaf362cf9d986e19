#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

TEST(TrialDataTest, SameSeedSameBytesAndAnotherSeedOthers) {
  const Chain chain = testing::TestChain();
  const auto a = RandomInputs(chain, 5, 1).value();
  EXPECT_EQ(a, RandomInputs(chain, 5, 1).value());
  EXPECT_NE(a[0], RandomInputs(chain, 5, 2).value()[0]);
  ASSERT_EQ(a.size(), 3u);
  EXPECT_EQ(a[0].size(), static_cast<size_t>(5 * testing::kK * 2));
  EXPECT_EQ(a[2].size(), static_cast<size_t>(testing::kN * testing::kL * 2));
}

TEST(TrialDataTest, ValuesAreFiniteVariedAndWeightsKeepTheScale) {
  const Chain chain = testing::TestChain();
  const auto inputs = RandomInputs(chain, 16, 9).value();
  for (size_t i = 0; i < inputs.size(); ++i) {
    double sum = 0, squares = 0;
    const size_t count = inputs[i].size() / 2;
    for (size_t j = 0; j < count; ++j) {
      uint16_t bits;
      std::memcpy(&bits, inputs[i].data() + 2 * j, 2);
      const double v = BF16ToF32(bits);
      ASSERT_TRUE(std::isfinite(v));
      sum += v;
      squares += v * v;
    }
    const double rms = std::sqrt(squares / static_cast<double>(count));
    EXPECT_LT(std::abs(sum / static_cast<double>(count)), 0.1 * rms);
    const double want = i == 0 ? 0.577 : i == 1 ? 1 / std::sqrt(512.0) : 1 / std::sqrt(181.0);
    EXPECT_NEAR(rms, want, 0.05 * want) << i;
  }
}

TEST(TrialDataTest, F32InputsWithoutProductsHaveRoots) {
  const std::string bytes = RandomInputs(ReadChain("x: f32[5000]; out sqrt(x)"), 0, 3).value()[0];
  std::vector<float> values(5000);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.25f);
  EXPECT_LE(*std::min_element(values.begin(), values.end()), 0.26f);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 1.0f);
}

TEST(TrialDataTest, ScalesOfCodesArePositive) {
  const Chain chain = ParseProblem("scaled_matmul m=M n=64 k=256")->chain;
  const auto inputs = RandomInputs(chain, 40, 3).value();
  int scales = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    if (chain.input_op(i).type.dtype != DType::kF32) continue;
    std::vector<float> values(inputs[i].size() / sizeof(float));
    std::memcpy(values.data(), inputs[i].data(), inputs[i].size());
    EXPECT_GE(*std::min_element(values.begin(), values.end()), 0.25f) << i;
    ++scales;
  }
  EXPECT_EQ(scales, 2);
}

TEST(TrialDataTest, OutputsAreReadThroughTheirStrides) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::M(), Dim::Constant(3)}};
  const ValueId x = b.Input(type).value();
  ASSERT_TRUE(b.Output(b.Unary(UnaryKind::kNeg, x).value(), {.strides = {{4, 0}, {1, 0}}}).ok());
  const Chain chain = b.Finish().value();
  const float buffer[] = {0, 1, 2, -9, 10, 11, 12};
  const std::string bytes(reinterpret_cast<const char*>(buffer), sizeof buffer);
  EXPECT_EQ(OutputBytes(chain, 0, 2).value(), static_cast<int64_t>(sizeof buffer));
  EXPECT_EQ(OutputValues(chain, 0, 2, bytes).value(), (std::vector<double>{0, 1, 2, 10, 11, 12}));
  EXPECT_FALSE(OutputValues(chain, 0, 3, bytes).ok());
  // Long ones are read in pieces.
  const int64_t rows = 200000;
  std::string many(static_cast<size_t>(OutputBytes(chain, 0, rows).value()), '\0');
  for (int64_t i = 0; i < rows * 4 - 1; ++i) {
    const auto value = static_cast<float>(i);
    std::memcpy(&many[static_cast<size_t>(i) * 4], &value, 4);
  }
  const std::vector<double> values = OutputValues(chain, 0, rows, many).value();
  ASSERT_EQ(values.size(), static_cast<size_t>(rows * 3));
  for (int64_t i = 0; i < rows * 3; ++i) {
    ASSERT_EQ(values[static_cast<size_t>(i)], static_cast<double>(i / 3 * 4 + i % 3));
  }
}

}  // namespace
}  // namespace sinter
