#include "src/product/four_bit_weights.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr int64_t kLaneK = 32;  // neighbours of K that a lane has
constexpr int64_t kMostStride = int64_t{1} << 40;
constexpr int64_t kColumnAlignment = 16;  // bytes

enum { kFused, kU4, kE2M1, kWideU4, kWideE2M1 };  // of FormOf

// Whether `x` is a number of `element`.
bool IsExact(double x, DType element) {
  if (x == 0) return true;
  int exponent;
  const double digits = std::frexp(x, &exponent);
  const int bits = element == DType::kBF16 ? 8 : 11;
  return std::abs(exponent) <= 14 &&
         std::ldexp(digits, bits) == std::nearbyint(std::ldexp(digits, bits));
}

bool IsPowerOfTwo(double x) {
  int exponent;
  return x > 0 && 2 * std::frexp(x, &exponent) == 1 && std::abs(exponent) <= 14;
}

}  // namespace

int64_t FourBitWeights::ColumnBytes(int64_t k) const {
  const int64_t of_zeros = zero == FourBitZero::kGroups ? SizeOf(zero_type) : 0;
  return k / 2 + k / group * (SizeOf(scale) + of_zeros);
}

std::string FourBitWeights::ToString() const {
  std::string text = absl::StrCat(packed ? " packed" : "", " codes=", e2m1 ? "e2m1" : "u4",
                                  " group=", group, " scale=", NameOf(scale));
  if (e2m1) return text;
  const char* const of = zero == FourBitZero::kNumber ? "one:" : "groups:";
  return absl::StrCat(
      text, " zero=", HasZeros() ? absl::StrCat(of, NameOf(zero_type)) : absl::StrCat(zero_value));
}

int FormOf(const FourBitWeights& w, DType element) {
  if (w.e2m1) return w.scale == element ? kE2M1 : kWideE2M1;
  if (w.scale != element) return kWideU4;
  if (w.HasZeros()) return w.zero_type == element ? kU4 : kWideU4;
  if (!IsExact(w.zero_value, element)) return kWideU4;
  // The fma's addend is zero * scale of bf16; of f16 1024 + zero.
  const double zero = w.zero_value;
  const bool fused = element == DType::kBF16
                         ? zero == 0 || IsPowerOfTwo(zero)
                         : zero >= 0 && zero <= 15 && zero == std::nearbyint(zero);
  return fused ? kFused : kU4;
}

bool IsWide(const FourBitWeights& w, DType element) { return FormOf(w, element) >= kWideU4; }

int UnpackInstructions(const FourBitWeights& w, DType element) {
  constexpr int kCodes[] = {9, 13, 15, 40, 40}, kFloat16Codes = 4;
  const int form = FormOf(w, element);
  return kCodes[form] + (element == DType::kF16 && !IsWide(w, element) ? kFloat16Codes : 0);
}

namespace {

// Packed weights: TMA loads boxes of whole sets of columns, and their scales of 16 bits.
absl::Status CheckPacked(const FourBitWeights& w, int64_t n, int64_t k) {
  constexpr int64_t kSet = 64;  // columns, and K of a box of rows
  if (n % kSet != 0) return InvalidField("n of packed weights", n, "a multiple of 64");
  if (k % kSet != 0) return InvalidField("k of packed weights", k, "a multiple of 64");
  if (w.group > 2 * kSet) return InvalidField("group of packed weights", w.group, "at most 128");
  if (w.zero == FourBitZero::kNumber) {
    return Invalid(
        "zero of packed weights is one number in memory, must be a constant or lie as "
        "the scales");
  }
  const int64_t least[] = {8 * n, n, n};
  const int64_t strides[] = {w.byte_stride, w.scale_stride, w.HasZeros() ? w.zero_stride : n};
  const char* const names[] = {"bytes", "scales", "zeros"};
  for (size_t i = 0; i < 3; ++i) {
    if (strides[i] >= least[i] && strides[i] % 16 == 0 && strides[i] <= kMostStride) continue;
    return InvalidField(absl::StrCat("stride of rows of packed ", names[i]), strides[i],
                        absl::StrCat("a multiple of 16 from ", least[i], " on"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFourBitWeights(const FourBitWeights& w, int64_t n, int64_t k) {
  if (w.group < kLaneK || w.group % kLaneK != 0) {
    return InvalidField("group", w.group, absl::StrCat("a multiple of ", kLaneK));
  }
  if (k < w.group || k % w.group != 0) {
    return InvalidField("k", k, absl::StrCat("a multiple of group, which is ", w.group));
  }
  if (!IsFloat(w.scale) || !IsFloat(w.zero_type)) {
    return InvalidField("dtype of scale and zero", NameOf(w.scale), "f32, f16 or bf16");
  }
  if (w.packed) return CheckPacked(w, n, k);
  for (const auto& [name, stride] :
       {std::make_pair("scale", w.scale_stride), std::make_pair("zero", w.zero_stride),
        std::make_pair("experts' bytes", w.byte_expert),
        std::make_pair("experts' scales", w.scale_expert),
        std::make_pair("experts' zeros", w.zero_expert)}) {
    if (stride >= 0 && stride <= kMostStride) continue;
    return InvalidField(absl::StrCat("stride of ", name), stride, "at least 0 and at most 2^40");
  }
  if (w.byte_stride % kColumnAlignment != 0 || w.byte_stride < k / 2 ||
      w.byte_stride > kMostStride) {
    return InvalidField("bytes between columns of w", w.byte_stride,
                        absl::StrCat("a multiple of ", kColumnAlignment, " from ", k / 2, " on"));
  }
  return absl::OkStatus();
}

std::string ConfigText(const FourBitWeights& w, DType element, int64_t k) {
  return absl::StrCat(absl::Substitute("  using Scale = $0;\n  using Zero = $1;\n",
                                       DeviceTypeOf(w.scale), DeviceTypeOf(w.zero_type)),
                      "  static constexpr int kForm = ", FormOf(w, element), ", kGroup = ", w.group,
                      ", kZeroGroup = ", w.ZeroGroup(k),
                      ";\n  static constexpr bool kZeros = ", w.HasZeros() ? "true" : "false",
                      ";\n  static constexpr float kZero = ", FloatText(w.zero_value),
                      ";\n  static constexpr long long kScaleStride = ", w.scale_stride,
                      ", kZeroStride = ", w.zero_stride, ", kScaleExpert = ", w.scale_expert,
                      ", kZeroExpert = ", w.zero_expert, ";\n");
}

}  // namespace sinter
