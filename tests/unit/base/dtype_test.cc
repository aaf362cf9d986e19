#include "src/base/dtype.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(DType, TableOfSizesNamesAndKinds) {
  const struct {
    DType dtype;
    const char* name;
    int64_t size;
    bool is_float;
  } kRows[] = {
      {DType::kF32, "f32", 4, true},    {DType::kF16, "f16", 2, true},
      {DType::kBF16, "bf16", 2, true},  {DType::kS32, "s32", 4, false},
      {DType::kPred, "pred", 1, false}, {DType::kE4M3, "e4m3", 1, false},
      {DType::kS8, "s8", 1, false},
  };
  for (const auto& row : kRows) {
    EXPECT_TRUE(IsValid(row.dtype));
    EXPECT_EQ(NameOf(row.dtype), row.name);
    EXPECT_EQ(SizeOf(row.dtype), row.size);
    EXPECT_EQ(IsFloat(row.dtype), row.is_float);
    EXPECT_EQ(HoldsFloats(row.dtype), row.is_float || row.dtype == DType::kE4M3);
    ASSERT_TRUE(ParseDType(row.name).ok());
    EXPECT_EQ(*ParseDType(row.name), row.dtype);
  }
}

TEST(DType, ForeignNumbersAndNamesAreRefused) {
  for (int number : {0, 9, -1, 1 << 30}) {
    EXPECT_FALSE(IsValid(static_cast<DType>(number)));
    EXPECT_EQ(SizeOf(static_cast<DType>(number)), 0);
    EXPECT_EQ(NameOf(static_cast<DType>(number)), "invalid");
    EXPECT_FALSE(IsFloat(static_cast<DType>(number)));
  }
  for (const char* name : {"", "F32", "float", "f32 ", "bf1"}) {
    EXPECT_EQ(ParseDType(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(Dim, ComparesAndPrintsByKind) {
  EXPECT_EQ(ToString(Dim::Constant(128)), "128");
  EXPECT_EQ(ToString(Dim::M()), "M");
  EXPECT_EQ(Dim::M().At(17), 17);
  EXPECT_EQ(Dim::Constant(4).At(17), 4);
  EXPECT_NE(Dim::Constant(0), Dim::M());
  EXPECT_EQ((Dim{5, true}), Dim::M());
  EXPECT_NE(Dim::Constant(1), Dim::Constant(2));
}

TEST(Buckets, EachIsItsOwnAndTheNextValueGoesUp) {
  std::vector<int64_t> buckets = {1, 8, 16, 32, 48, 64, 80, 96, 112, 128};
  for (int64_t octave = 128; octave < kLargestBucket; octave *= 2) {
    for (int64_t i = 1; i <= 16; ++i) buckets.push_back(octave + i * octave / 16);
  }
  int64_t previous = 0;
  for (int64_t bucket : buckets) {
    EXPECT_EQ(BucketOf(bucket), bucket);
    EXPECT_EQ(BucketOf(previous + 1), bucket);
    EXPECT_EQ(BucketBelow(bucket), std::max<int64_t>(previous, 1));
    previous = bucket;
  }
  EXPECT_EQ(previous, kLargestBucket);
  EXPECT_EQ(BucketBelow(kLargestBucket + 1), kLargestBucket);
  EXPECT_EQ(BucketOf(0), 1);
  EXPECT_EQ(BucketOf(8193), kLargestBucket);
  EXPECT_EQ(BucketOf(std::numeric_limits<int64_t>::max()), kLargestBucket);
}

// The value of an IEEE-like 16-bit float by its definition, in double.
double ValueOf(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

struct HalfFormat {
  const char* name;
  int exponent_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  uint16_t Infinity() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  }
};

const HalfFormat kFormats[] = {{"f16", 5, F16ToF32, F32ToF16}, {"bf16", 8, BF16ToF32, F32ToBF16}};

TEST(HalfConversions, WidenEveryValueExactlyAndNarrowItBack) {
  for (const HalfFormat& format : kFormats) {
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      const float wide = format.widen(bits);
      const uint16_t magnitude = bits & 0x7fff;
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << format.name << " " << i;
      if (magnitude > format.Infinity()) {
        ASSERT_TRUE(std::isnan(wide)) << format.name << " " << i;
      } else if (magnitude == format.Infinity()) {
        ASSERT_TRUE(std::isinf(wide)) << format.name << " " << i;
      } else {
        ASSERT_EQ(static_cast<double>(wide), ValueOf(bits, format.exponent_bits))
            << format.name << " " << i;
      }
      ASSERT_EQ(format.narrow(wide), bits) << format.name << " " << i;
    }
  }
}

// Between every two neighbours: the midpoint goes to the even one, a step to either side to the
// nearer one.
TEST(HalfConversions, NarrowToNearestWithTiesToEven) {
  for (const HalfFormat& format : kFormats) {
    for (uint16_t low = 0; low < format.Infinity(); ++low) {
      const uint16_t high = low + 1;
      const double below = ValueOf(low, format.exponent_bits);
      const double above = ValueOf(high, format.exponent_bits);  // infinity's successor value too
      const double middle = (below + above) / 2;
      const float exact = static_cast<float>(middle);
      if (static_cast<double>(exact) != middle) continue;  // bf16's midpoints below f32's smallest
      const uint16_t even = (low & 1) == 0 ? low : high;
      const float under = std::nextafterf(exact, 0.0f);
      const float over = std::nextafterf(exact, std::numeric_limits<float>::infinity());
      for (uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
        const float s = sign != 0 ? -1.0f : 1.0f;
        ASSERT_EQ(format.narrow(s * exact), sign | even) << format.name << " " << low;
        ASSERT_EQ(format.narrow(s * under), sign | low) << format.name << " " << low;
        ASSERT_EQ(format.narrow(s * over), sign | high) << format.name << " " << low;
      }
    }
  }
}

TEST(HalfConversions, OverflowIsInfinityAndNaNStaysNaN) {
  for (const HalfFormat& format : kFormats) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(format.narrow(std::numeric_limits<float>::max()), format.Infinity());
    EXPECT_EQ(format.narrow(-std::numeric_limits<float>::max()), 0x8000 | format.Infinity());
    EXPECT_EQ(format.narrow(infinity), format.Infinity());
    for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u}) {
      float nan;
      std::memcpy(&nan, &bits, sizeof(nan));
      EXPECT_TRUE(std::isnan(format.widen(format.narrow(nan)))) << format.name << " " << bits;
    }
  }
  EXPECT_EQ(F32ToF16(65519.996f), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::denorm_min()), 0);
}

// The 127 magnitudes of e4m3 from its definition: (1 + m/8) 2^(e - 7), or m/8 2^-6 at e = 0.
std::vector<double> E4M3Magnitudes() {
  std::vector<double> values;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code / 8, mantissa = code % 8;
    values.push_back(exponent == 0 ? mantissa / 8.0 * std::pow(2.0, -6)
                                   : (1 + mantissa / 8.0) * std::pow(2.0, exponent - 7));
  }
  return values;
}

// The nearest of the magnitudes by searching all of them; of two as near, the even code.
int NearestE4M3(const std::vector<double>& magnitudes, double magnitude) {
  int best = 0;
  for (int code = 1; code < 127; ++code) {
    const double gain =
        std::fabs(magnitudes[best] - magnitude) - std::fabs(magnitudes[code] - magnitude);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(E4M3, WidensEveryCode) {
  const std::vector<double> magnitudes = E4M3Magnitudes();
  EXPECT_EQ(magnitudes.back(), 448);
  for (int code = 0; code < 127; ++code) {
    EXPECT_EQ(E4M3ToF32(static_cast<uint8_t>(code)), magnitudes[code]);
    EXPECT_EQ(E4M3ToF32(static_cast<uint8_t>(code | 0x80)), -magnitudes[code]);
    EXPECT_EQ(std::signbit(E4M3ToF32(static_cast<uint8_t>(code | 0x80))), true);
  }
  EXPECT_TRUE(std::isnan(E4M3ToF32(0x7f)));
  EXPECT_TRUE(std::isnan(E4M3ToF32(0xff)));
}

TEST(E4M3, NarrowsEveryBF16ToTheNearest) {
  const std::vector<double> magnitudes = E4M3Magnitudes();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = BF16ToF32(static_cast<uint16_t>(bits));
    const uint8_t code = F32ToE4M3(value);
    if (std::isnan(value)) {
      ASSERT_EQ(code, 0x7f) << bits;
      continue;
    }
    const int sign = std::signbit(value) ? 0x80 : 0;
    const double magnitude = std::min(std::fabs(static_cast<double>(value)), 448.0);
    ASSERT_EQ(code, sign | NearestE4M3(magnitudes, magnitude)) << bits;
  }
}

TEST(E4M3, TiesGoToTheEvenCodeAndNeighboursToTheirSide) {
  const std::vector<double> magnitudes = E4M3Magnitudes();
  for (int low = 0; low < 126; ++low) {
    const float middle = static_cast<float>((magnitudes[low] + magnitudes[low + 1]) / 2);
    EXPECT_EQ(F32ToE4M3(middle), low + low % 2);
    EXPECT_EQ(F32ToE4M3(std::nextafterf(middle, 0.0f)), low);
    EXPECT_EQ(F32ToE4M3(-std::nextafterf(middle, 1e9f)), 0x80 | (low + 1));
  }
}

}  // namespace
}  // namespace sinter
