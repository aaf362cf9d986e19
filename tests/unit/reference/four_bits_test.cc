// Weights of four bits against tables of their codes, for every byte.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using V = std::vector<double>;

constexpr double kE2M1[] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6};

// All 256 bytes as s8, and their codes: of each byte its low four bits, then the others.
V EveryByte() {
  V bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<int8_t>(byte));
  return bytes;
}
V CodesOfBytes() {
  V codes;
  for (int byte = 0; byte < 256; ++byte) {
    for (const int code : {byte % 16, byte / 16}) codes.push_back(code);
  }
  return codes;
}

V RunBytes(absl::string_view chain, const std::vector<V>& others) {
  std::vector<V> inputs = {EveryByte()};
  inputs.insert(inputs.end(), others.begin(), others.end());
  return testing::RunF64(ReadChain(chain), 1, inputs)[0];
}

TEST(FourBits, U4IsTheCodeLessItsZeroTimesItsScale) {
  // 2 matrices of 4 rows of 64 weights, in groups of 32.
  const V scale = testing::Random(DType::kBF16, 16, 1);
  V zero;
  for (int i = 0; i < 16; ++i) zero.push_back(i);
  const V got = RunBytes(
      "w: s8[2,4,32]; scale: bf16[2,4,2]; zero: f16[2,4,2];"
      "out dequantize_u4(w, scale, zero)",
      {scale, zero});
  const V codes = CodesOfBytes();
  ASSERT_EQ(got.size(), codes.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], (codes[i] - zero[i / 32]) * scale[i / 32]) << i;
  }
}

TEST(FourBits, OneZeroServesAllGroups) {
  const V scale = {3, 0.5, -2, 7};  // a group is a whole row
  const V got =
      RunBytes("w: s8[4,64]; scale: f32[4,1]; out dequantize_u4(w, scale, scalar(8))", {scale});
  const V codes = CodesOfBytes();
  ASSERT_EQ(got.size(), codes.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], (codes[i] - 8) * scale[i / 128]) << i;
}

TEST(FourBits, E2M1HasItsSixteenNumbers) {
  V scale;  // powers of two down to E8M0's least, which bf16 has as a subnormal
  for (int i = 0; i < 16; ++i) scale.push_back(std::ldexp(1.0, i == 3 ? -127 : 15 * (i - 8)));
  const V got = RunBytes("w: s8[16,16]; scale: bf16[16,1]; out dequantize_e2m1(w, scale)", {scale});
  const V codes = CodesOfBytes();
  ASSERT_EQ(got.size(), codes.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = kE2M1[static_cast<size_t>(codes[i])] * scale[i / 32];
    EXPECT_EQ(got[i], want) << i;
    EXPECT_EQ(std::signbit(got[i]), std::signbit(want)) << i;
  }
}

// Packed bytes and scales, as the order of Marlin is described: of 64 columns and 16 of K, column
// 16 f + 8 b + i and elements 2 j + e and 2 j + e + 8 share a byte.
TEST(FourBits, PackedWeightsLieAsLanesReadThem) {
  constexpr size_t n = 128, k = 96, groups = 3;
  V bytes(n * k / 2), scale(groups * n), zero(groups * n), codes(n * k);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<double>((i * 7 + i / 64) % 16);
  for (size_t column = 0; column < n; ++column) {
    const size_t set = column / 64, f = column % 64 / 16, b = column / 8 % 2, i = column % 8;
    for (size_t at = 0; at < k; ++at) {
      const size_t j = at % 8 / 2, e = at % 2;
      const size_t byte = at / 16 * 8 * n + set * 512 + 16 * (4 * i + j) + 4 * f + 2 * e + b;
      bytes[byte] += codes[column * k + at] * (at % 16 < 8 ? 1 : 16);
    }
    for (size_t group = 0; group < groups; ++group) {
      const size_t place = group * n + column / 64 * 64 + 8 * (column % 8) + column % 64 / 8;
      scale[place] = static_cast<double>(column + 1) * (group == 1 ? -1 : 0.5);
      zero[place] = static_cast<double>((column + group) % 16);
    }
  }
  for (double& byte : bytes) byte = static_cast<int8_t>(static_cast<int>(byte));
  const V u4 = testing::RunF64(ReadChain("w: s8[6,1024]; scale: f32[3,128]; zero: f32[3,128];"
                                         "out dequantize_u4_packed(w, scale, zero)"),
                               1, {bytes, scale, zero})[0];
  const V e2m1 = testing::RunF64(
      ReadChain("w: s8[6,1024]; scale: f32[3,128]; out dequantize_e2m1_packed(w, scale)"), 1,
      {bytes, scale})[0];
  ASSERT_EQ(u4.size(), codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t column = i / k, group = i % k / 32;
    const double of_group = static_cast<double>(column + 1) * (group == 1 ? -1 : 0.5);
    EXPECT_EQ(u4[i], (codes[i] - static_cast<double>((column + group) % 16)) * of_group) << i;
    EXPECT_EQ(e2m1[i], kE2M1[static_cast<size_t>(codes[i])] * of_group) << i;
  }
}

// What a checkpoint packs is the matrix that its own bytes are.
TEST(FourBits, PackedRowsAreTheRowsThatTheyWere) {
  const V scale = testing::Random(DType::kBF16, 128, 3);
  V bytes(64 * 16);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int8_t>(i * 37 + i / 16);
  const std::vector<V> got = testing::RunF64(
      ReadChain("w: s8[64,16]; scale: bf16[64,2]; eight = 8;"
                "out dequantize_u4(w, scale, eight), dequantize_u4_packed(pack_codes(w, rows),"
                " pack_scales(scale, rows), eight), dequantize_e2m1(w, scale),"
                "dequantize_e2m1_packed(pack_codes(w, rows), pack_scales(scale, rows))"),
      1, {bytes, scale});
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[2], got[3]);
}

TEST(FourBits, ZerosOfWordsAreTheirCodes) {
  V bytes(2 * 32);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int8_t>(i * 29 + 3);
  const std::vector<V> got = testing::RunF64(ReadChain("zero: s8[2,32];"
                                                       "out pack_zeros(zero, gptq_v2),"
                                                       "pack_zeros(zero, gptq),"
                                                       "pack_zeros(zero, awq)"),
                                             1, {bytes});
  constexpr int kOfAwq[] = {0, 2, 4, 6, 1, 3, 5, 7};  // columns of a word's places
  for (size_t group = 0; group < 2; ++group) {
    for (size_t column = 0; column < 64; ++column) {
      const size_t place = 64 * group + 8 * (column % 8) + column / 8;
      const auto code = [&](size_t at) {
        const auto byte = static_cast<uint8_t>(static_cast<int>(bytes[32 * group + at / 2]));
        return at % 2 == 0 ? byte % 16 : byte / 16;
      };
      size_t of_awq = 0;
      while (static_cast<size_t>(kOfAwq[of_awq]) != column % 8) ++of_awq;
      EXPECT_EQ(got[0][place], code(column));
      EXPECT_EQ(got[1][place], (code(column) + 1) % 16);
      EXPECT_EQ(got[2][place], code(column - column % 8 + of_awq));
    }
  }
}

// What a product reads is rounded once: (code - zero) * scale is exact in f32.
TEST(FourBits, AProductReadsWeightsRoundedOnce) {
  const V scale = testing::Random(DType::kF16, 8, 2);
  V a(64, 0);
  a[5] = 1;  // picks column 5
  const V got = RunBytes(
      "w: s8[8,32]; scale: f16[8,1]; a: bf16[M,64];"
      "out a @ bf16(dequantize_u4(w, scale, scalar(8))).T",
      {scale, a});
  const V codes = CodesOfBytes();
  ASSERT_EQ(got.size(), 8u);
  for (size_t n = 0; n < 8; ++n) {
    const auto exact = static_cast<float>((codes[64 * n + 5] - 8) * scale[n]);
    EXPECT_EQ(got[n], BF16ToF32(F32ToBF16(exact))) << n;
  }
}

}  // namespace
}  // namespace sinter
