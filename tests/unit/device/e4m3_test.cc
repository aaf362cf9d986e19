// The conversions of chips without e4m3 instructions, against the library's own, bit for bit.
#include <cmath>

#include "src/base/dtype.h"
#include "tests/support/test.h"

#define SINTER_DEVICE inline
namespace sinter {
using u32 = uint32_t;
inline u32 __float_as_uint(float x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(u32 bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
}  // namespace sinter
#include "src/device/ptx/e4m3.cuh"

namespace sinter {
namespace {

TEST(SoftwareE4M3, EveryCodeIsItsValue) {
  for (u32 code = 0; code < 256; ++code) {
    const float expected = E4M3ToF32(static_cast<uint8_t>(code)), got = float_of_e4m3(code);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(__float_as_uint(got), __float_as_uint(expected)) << code;
    }
    EXPECT_EQ(__float_as_uint(float_of_e4m3(code | 0x5500u)), __float_as_uint(got)) << code;
  }
}

// Each exponent with each pattern of the bits that decide, and around it.
TEST(SoftwareE4M3, EveryFloatRoundsAsTheLibraryRounds) {
  int wrong = 0;
  const auto check = [&](u32 bits) {
    const float x = __uint_as_float(bits);
    if (e4m3_of(x) != F32ToE4M3(x) && ++wrong < 10) ADD_FAILURE() << std::hex << bits;
  };
  for (u32 top = 0; top < 1u << 16; ++top) {
    for (const u32 low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) check(top << 16 | low);
  }
  u32 bits = 1;
  for (int i = 0; i < 4 << 20; ++i) check(bits = bits * 1664525u + 1013904223u);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sinter
