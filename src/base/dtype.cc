#include "src/base/dtype.h"

#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t size;
  bool is_float;
};

constexpr DTypeRow kDTypes[] = {
    {DType::kF32, "f32", 4, true},    {DType::kF16, "f16", 2, true},
    {DType::kBF16, "bf16", 2, true},  {DType::kS32, "s32", 4, false},
    {DType::kPred, "pred", 1, false}, {DType::kE4M3, "e4m3", 1, false},
    {DType::kS8, "s8", 1, false},     {DType::kS64, "s64", 8, false},
};

const DTypeRow* Find(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

constexpr int64_t kFewRows[] = {1, 8, 16, 32, 48, 64, 80, 96, 112, 128};
constexpr int64_t kMostFewRows = 128;
constexpr int64_t kBucketsOfAnOctave = 16;

// Between two buckets of the octave that holds `m` > kMostFewRows; its upper end is in it.
int64_t StepAt(int64_t m) {
  int64_t octave = kMostFewRows;
  while (2 * octave < m) octave *= 2;
  return octave / kBucketsOfAnOctave;
}

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// `value >> shift`, rounded to nearest, ties to even. 1 <= shift <= 31.
uint32_t ShiftRoundEven(uint32_t value, int shift) {
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rest = value & ((half << 1) - 1);
  const uint32_t kept = value >> shift;
  return kept + ((rest > half || (rest == half && (kept & 1))) ? 1 : 0);
}

}  // namespace

int64_t SizeOf(DType dtype) {
  const DTypeRow* row = Find(dtype);
  return row == nullptr ? 0 : row->size;
}

absl::string_view NameOf(DType dtype) {
  const DTypeRow* row = Find(dtype);
  return row == nullptr ? "invalid" : row->name;
}

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (name == row.name) return row.dtype;
  }
  return Invalid("dtype \"", name.substr(0, 32), "\" is not ", DTypeNames());
}

bool IsValid(DType dtype) { return Find(dtype) != nullptr; }

bool IsFloat(DType dtype) {
  const DTypeRow* row = Find(dtype);
  return row != nullptr && row->is_float;
}

bool HoldsFloats(DType dtype) { return IsFloat(dtype) || dtype == DType::kE4M3; }

bool IsCode(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kS8; }

std::string DTypeNames() {
  std::string names;
  constexpr size_t kCount = std::size(kDTypes);
  for (size_t i = 0; i < kCount; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : i + 1 == kCount ? " or " : ", ", kDTypes[i].name);
  }
  return names;
}

std::string ToString(Dim dim) { return dim.symbolic ? "M" : absl::StrCat(dim.value); }

int64_t BucketOf(int64_t m) {
  for (int64_t bucket : kFewRows) {
    if (m <= bucket) return bucket;
  }
  if (m >= kLargestBucket) return kLargestBucket;
  const int64_t step = StepAt(m);
  return (m + step - 1) / step * step;
}

int64_t BucketBelow(int64_t bucket) {
  if (bucket > kLargestBucket) return kLargestBucket;
  if (bucket > kMostFewRows) return (bucket - 1) / StepAt(bucket) * StepAt(bucket);
  int64_t below = kFewRows[0];
  for (int64_t b : kFewRows) {
    if (b < bucket) below = b;
  }
  return below;
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return FromBits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return FromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * (1.0f / 16777216.0f);  // subnormal: 2^-24
  return FromBits(sign | BitsOf(magnitude));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the payload's top bits, never turn into infinity
    const uint32_t payload = (magnitude >> 13) & 0x3ffu;
    return static_cast<uint16_t>(sign | 0x7c00u | (payload != 0 ? payload : 0x200u));
  }
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);                   // rounds to 65536 or above
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);  // below half of 2^-24
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent >= 113) {  // normal in f16; a carry out of the mantissa moves on to the exponent
    return static_cast<uint16_t>(sign | ShiftRoundEven(magnitude - (112u << 23), 13));
  }
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  return static_cast<uint16_t>(sign | ShiftRoundEven(mantissa, 126 - exponent));
}

float BF16ToF32(uint16_t bits) { return FromBits(static_cast<uint32_t>(bits) << 16); }

uint16_t F32ToBF16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const uint32_t kept = bits >> 16;
    return static_cast<uint16_t>((kept & 0x7fu) != 0 ? kept : kept | 0x40u);
  }
  return static_cast<uint16_t>(ShiftRoundEven(bits, 16));
}

float E4M3ToF32(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
  const uint32_t exponent = (bits >> 3) & 0xfu;
  const uint32_t mantissa = bits & 0x7u;
  if ((bits & 0x7fu) == 0x7fu) return FromBits(sign | 0x7fc00000u);
  if (exponent != 0) return FromBits(sign | ((exponent + 120) << 23) | (mantissa << 20));
  const float magnitude = static_cast<float>(mantissa) * (1.0f / 512.0f);  // subnormal: 2^-9
  return FromBits(sign | BitsOf(magnitude));
}

uint8_t F32ToE4M3(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7e);  // 448 and above
  if (magnitude < 0x3a800000u) return static_cast<uint8_t>(sign);          // below half of 2^-9
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent >= 121) {  // normal in e4m3
    return static_cast<uint8_t>(sign | ShiftRoundEven(magnitude - (120u << 23), 20));
  }
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  return static_cast<uint8_t>(sign | ShiftRoundEven(mantissa, 141 - exponent));
}

float RoundToFloatType(float value, DType dtype) {
  if (dtype == DType::kF16) return F16ToF32(F32ToF16(value));
  if (dtype == DType::kBF16) return BF16ToF32(F32ToBF16(value));
  if (dtype == DType::kE4M3) return E4M3ToF32(F32ToE4M3(value));
  return value;
}

double LargestOf(DType dtype) {
  if (dtype == DType::kE4M3) return 448;
  return dtype == DType::kS8 ? 127 : std::numeric_limits<double>::infinity();
}

}  // namespace sinter
