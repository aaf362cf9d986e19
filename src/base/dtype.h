// Element types and dimensions of Sinter tensors.
#ifndef SINTER_SRC_BASE_DTYPE_H_
#define SINTER_SRC_BASE_DTYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Values are part of the canonical form and of the C ABI: never reused.
// kE4M3 is the OCP 8-bit float: no infinity, at most 448, NaN is 0x7f and 0xff.
enum class DType : int32_t {
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kS32 = 4,
  kPred = 5,
  kE4M3 = 6,
  kS8 = 7,
  kS64 = 8,  // for ids only, as PyTorch has them
};

int64_t SizeOf(DType dtype);            // bytes per element; pred, e4m3 and s8 are 1
absl::string_view NameOf(DType dtype);  // "f32", "f16", "bf16", "s32", "pred", "e4m3", "s8", "s64"
absl::StatusOr<DType> ParseDType(absl::string_view name);
bool IsValid(DType dtype);
bool IsFloat(DType dtype);      // f32, f16 or bf16: what floating arithmetic takes
bool HoldsFloats(DType dtype);  // those and e4m3
bool IsCode(DType dtype);       // e4m3 or s8: what is cast, moved and multiplied, nothing else
std::string DTypeNames();       // all of them: "f32, f16, .., s8 or s64"

// One dimension: a constant extent, or the symbol M (rows, known at launch).
struct Dim {
  int64_t value = 0;  // extent; unused when symbolic
  bool symbolic = false;
  static Dim Constant(int64_t v) { return {v, false}; }
  static Dim M() { return {0, true}; }
  int64_t At(int64_t m) const { return symbolic ? m : value; }
  bool operator==(const Dim& o) const {
    return symbolic == o.symbolic && (symbolic || value == o.value);
  }
  bool operator!=(const Dim& o) const { return !(*this == o); }
};

std::string ToString(Dim dim);  // "128" or "M"

// The bucket that `m` rows are planned for: the smallest bucket >= m, or the largest bucket.
// sinter.h repeats the definition in dtype.cc. Planning, tuning, serving and keys all use it. From
// 128 on an octave has 16 buckets: a schedule's tiles fit the bucket, and waste time with fewer
// rows. With 8 an octave, products of 257 to 8192 rows took 2 to 4 % longer
// (docs/lab/tiles.md).
int64_t BucketOf(int64_t m);
int64_t BucketBelow(int64_t bucket);  // the next smaller one; 1 below the smallest
constexpr int64_t kLargestBucket = 8192;

// Host conversions between f32 and the 16-bit types: round to nearest even, NaN kept, saturating to
// infinity.
float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);
float BF16ToF32(uint16_t bits);
uint16_t F32ToBF16(float value);
// f32 and e4m3: round to nearest even, saturating to +-448 (infinities too); every NaN gives 0x7f.
float E4M3ToF32(uint8_t bits);
uint8_t F32ToE4M3(float value);

// The value of a type that HoldsFloats next to `value`, as these conversions round.
float RoundToFloatType(float value, DType dtype);
// 448 of e4m3, 127 of s8, whose codes lie around zero; infinite for types that have infinity.
double LargestOf(DType dtype);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_DTYPE_H_
