// The reference executor through the ABI: buffers in the caller's order, checks that can fail.
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

// y = b - a, added so that the caller's order of inputs is not the canonical one.
ChainPtr Difference() {
  ChainPtr chain = EmptyChain();
  const sinter_value a = Input(chain.get(), SINTER_DTYPE_F32, {SINTER_DIM_M, 2});
  const sinter_value b = Input(chain.get(), SINTER_DTYPE_F32, {SINTER_DIM_M, 2});
  sinter_value y = 0;
  Ok(sinter_chain_add_binary, chain.get(), SINTER_BINARY_SUB, b, a, &y);
  Ok(sinter_chain_add_output, chain.get(), y, nullptr);
  Ok(sinter_chain_finish, chain.get());
  return chain;
}

TEST(ReferenceAbi, TakesInputsInTheOrderOfTheirAdds) {
  const ChainPtr chain = Difference();
  const std::vector<float> a = {1, 2, 3, 4}, b = {10, 20, 30, 40};
  std::vector<float> y(4, -1);
  const void* inputs[] = {a.data(), b.data()};
  void* outputs[] = {y.data()};
  Ok(sinter_x_reference_run, chain.get(), 2, 2, inputs, 1, outputs, 1);
  EXPECT_THAT(y, testing::ElementsAre(9, 18, 27, 36));
}

TEST(ReferenceAbi, ACheckAcceptsRightOutputsAndRefusesWrongOnes) {
  const ChainPtr chain = Difference();
  constexpr int64_t kRows = 300;
  std::vector<float> a(2 * kRows), b(2 * kRows), y(2 * kRows);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(3 * i);
    y[i] = static_cast<float>(2 * i);
  }
  const void* inputs[] = {a.data(), b.data()};
  const void* outputs[] = {y.data()};
  const auto check = [&](int64_t max_rows) {
    sinter_x_check result = SINTER_INIT(sinter_x_check);
    Ok(sinter_x_reference_check, chain.get(), kRows, 2, inputs, 1, outputs, max_rows, 0, &result);
    return result;
  };
  EXPECT_EQ(check(0).within, 1u);
  EXPECT_EQ(check(0).count, 2 * kRows);
  EXPECT_EQ(check(64).within, 1u);
  EXPECT_EQ(check(64).count, 2 * 64);
  y[2 * kRows - 1] += 100;  // the last row is always among those that are checked
  EXPECT_EQ(check(0).within, 0u);
  EXPECT_EQ(check(64).within, 0u);
  y[2 * kRows - 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(check(64).nans, 1);
}

// e4m3 outputs are judged by codes: 20 of 1000 may be the next one.
TEST(ReferenceAbi, ACheckOfE4M3CountsSteps) {
  const ChainPtr chain = EmptyChain();
  const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {1000});
  sinter_value y = 0;
  Ok(sinter_chain_add_cast, chain.get(), x, SINTER_DTYPE_E4M3, &y);
  Ok(sinter_chain_add_output, chain.get(), y, nullptr);
  Ok(sinter_chain_finish, chain.get());
  const std::vector<float> values(1000, 17.2f);  // between 16 and 18
  std::vector<uint8_t> codes(1000, 0);
  const void* inputs[] = {values.data()};
  void* outputs[] = {codes.data()};
  Ok(sinter_x_reference_run, chain.get(), 0, 1, inputs, 1, outputs, 1);
  EXPECT_EQ(codes, std::vector<uint8_t>(1000, 0x59));  // (1 + 1/8) 2^(11 - 7)
  const auto within = [&] {
    sinter_x_check result = SINTER_INIT(sinter_x_check);
    const void* const got[] = {codes.data()};
    Ok(sinter_x_reference_check, chain.get(), 0, 1, inputs, 1, got, 0, 0, &result);
    return result.within != 0;
  };
  EXPECT_TRUE(within());
  std::fill(codes.begin() + 7, codes.begin() + 27, 0x58);
  EXPECT_TRUE(within());
  codes[27] = 0x5a;
  EXPECT_FALSE(within()) << "21 of a thousand";
  std::fill(codes.begin() + 7, codes.begin() + 28, 0x59);
  codes[7] = 0x57;
  EXPECT_FALSE(within()) << "two steps";
}

TEST(ReferenceAbi, CountsAndPointersAreChecked) {
  const ChainPtr chain = Difference();
  std::vector<float> buffer(4);
  const void* inputs[] = {buffer.data(), nullptr};
  void* outputs[] = {buffer.data()};
  EXPECT_EQ(Try(sinter_x_reference_run, chain.get(), 2, 1, inputs, 1, outputs, 0).message,
            "input_count is 1 and output_count 1, the chain has 2 and 1");
  EXPECT_EQ(Try(sinter_x_reference_run, chain.get(), 2, 2, inputs, 1, outputs, 0).status,
            SINTER_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace sinter_test
