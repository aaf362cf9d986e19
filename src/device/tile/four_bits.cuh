// Weights of four bits, unpacked in registers to elements of 16 bits.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/packed.cuh"

namespace sinter {

// A word has eight neighbours of K, the first in its lowest four bits. Unpacked, v[i] has elements
// i and i + 4: these lie 16 bits apart in the word, so that masks and shifts take both. Rows are
// put into the same order (pair_order).
//
// Numbers are part of generated source (src/four_bit). Scales and zeros of the first three forms
// have the weights' element.
enum FourBitForm {
  kU4Fused = 0,  // (code - zero) * scale of a constant zero, for which one fma is exact
  kU4 = 1,       // (code - zero) * scale: the difference is rounded too, unless it is exact
  kE2M1 = 2,     // number * scale
  kU4Wide = 3,   // the same as kU4 in f32, of scales and zeros of any floating type
  kE2M1Wide = 4,
};

constexpr u32 kLowCodes = 0x000F000Fu, kHighCodes = 0x00F000F0u;

constexpr SINTER_DEVICE float power_of_two(int exponent) {
  float value = 1;
  for (int i = exponent; i < 0; ++i) value *= 0.5f;
  for (int i = exponent; i > 0; --i) value *= 2;
  return value;
}
template <int kExponent>
constexpr float kPowerOfTwo = power_of_two(kExponent);

// What a lane has of a group: words of two equal elements, or numbers in f32.
struct FourBitFactors {
  u32 scale, high_scale, shift, high_shift;
};
struct WideFourBitFactors {
  float scale, zero;
};

// Unpacked weights are times kShrunk; sums are divided by it. All factors are then normal numbers
// of bf16 for scales from 2^-94 up to 2^26.
//
// A code at the lowest bits of a bf16 is the number code * 2^-133, and four bits further up code *
// 2^-129: exponents 0 and 1 share a spacing.
template <class Element, int kForm>
struct FourBits {
  using Factors = FourBitFactors;
  using Of = Packed<Element>;
  static constexpr float kShrunk = kPowerOfTwo<-32>;

  static SINTER_DEVICE u32 both(float x) { return Element::pack(x, x); }
  static SINTER_DEVICE Factors factors(float scale, float zero) {
    if constexpr (kForm == kU4Fused) {
      return {both(scale * kPowerOfTwo<101>), both(scale * kPowerOfTwo<97>),
              both(-zero * scale * kShrunk), 0};
    } else if constexpr (kForm == kU4) {
      return {both(scale * kPowerOfTwo<-26>), 0, both(-zero * kPowerOfTwo<-6>), 0};
    } else {
      return {both(scale * kPowerOfTwo<94>), 0, 0, 0};
    }
  }
  // The same of words of two equal numbers; a constant zero must be exact.
  static SINTER_DEVICE Factors factors_of_words(u32 scale, u32 zero) {
    if constexpr (kForm == kU4Fused) {
      return {Of::mul(scale, both(kPowerOfTwo<101>)), Of::mul(scale, both(kPowerOfTwo<97>)),
              Of::mul(Of::mul(zero, both(-kShrunk)), scale), 0};
    } else if constexpr (kForm == kU4) {
      return {Of::mul(scale, both(kPowerOfTwo<-26>)), 0, Of::mul(zero, both(-kPowerOfTwo<-6>)), 0};
    } else {
      return {Of::mul(scale, both(kPowerOfTwo<94>)), 0, 0, 0};
    }
  }
  // The lowest codes of both halves of x, and the next ones.
  static SINTER_DEVICE void unpack_two(u32 x, const Factors& f, u32& first, u32& second) {
    if constexpr (kForm == kE2M1) {  // magnitudes at bits 8 to 6 are numbers * 2^-126
      // A multiplication puts a code into two places, of which one has the sign.
      first = Of::mul((x & kLowCodes) * 0x1040u & kNumber, f.scale);
      second = Of::mul((x & kHighCodes) * 0x104u & kNumber, f.scale);
    } else {
      first = low(x & kLowCodes, f);
      second = high(x & kHighCodes, f);
    }
  }

 private:
  static constexpr u32 kNumber = 0x81C081C0u;  // a sign, and a magnitude at bits 8 to 6
  static SINTER_DEVICE u32 low(u32 codes, const Factors& f) {
    if constexpr (kForm == kU4Fused) return Of::fma(codes, f.scale, f.shift);
    return Of::mul(Of::fma(codes, 0x7F007F00u, f.shift), f.scale);  // 2^127
  }
  static SINTER_DEVICE u32 high(u32 codes, const Factors& f) {
    if constexpr (kForm == kU4Fused) return Of::fma(codes, f.high_scale, f.shift);
    return Of::mul(Of::fma(codes, 0x7D007D00u, f.shift), f.scale);  // 2^123
  }
};

// f16 has too few exponents for that. Below 0x6400, codes are 1024 + code, and four bits further up
// 1024 + 16 * code.
template <int kForm>
struct FourBits<Float16, kForm> {
  using Factors = FourBitFactors;
  using Of = Packed<Float16>;
  static constexpr float kShrunk = 1;

  static SINTER_DEVICE u32 both(float x) { return Float16::pack(x, x); }
  static SINTER_DEVICE Factors factors(float scale, float zero) {
    if constexpr (kForm == kU4Fused) return {both(scale), 0, both(-1024 - zero), both(-64 - zero)};
    return {both(scale), 0, both(-zero), 0};
  }
  static SINTER_DEVICE Factors factors_of_words(u32 scale, u32 zero) {
    const u32 shift = zero ^ 0x80008000u;  // -zero
    if constexpr (kForm == kU4Fused) {
      return {scale, 0, Of::add(shift, both(-1024)), Of::add(shift, both(-64))};
    }
    return {scale, 0, shift, 0};
  }
  static SINTER_DEVICE void unpack_two(u32 x, const Factors& f, u32& first, u32& second) {
    if constexpr (kForm == kE2M1) {  // magnitudes at bits 11 to 9 are numbers * 2^-14
      first = number(((x << 12) & 0x80008000u) | ((x << 9) & 0x0E000E00u), f);
      second = number(((x << 8) & 0x80008000u) | ((x << 5) & 0x0E000E00u), f);
    } else {
      first = low(x & kLowCodes, f);
      second = high(x & kHighCodes, f);
    }
  }

 private:
  static constexpr u32 kBase = 0x64006400u;  // 1024
  static SINTER_DEVICE u32 number(u32 bits, const Factors& f) {
    return Of::mul(Of::mul(bits, 0x74007400u), f.scale);  // 2^14
  }
  static SINTER_DEVICE u32 low(u32 codes, const Factors& f) {
    if constexpr (kForm == kU4Fused) return Of::mul(Of::add(codes | kBase, f.shift), f.scale);
    return Of::mul(Of::add(Of::add(codes | kBase, 0xE400E400u), f.shift), f.scale);  // - 1024
  }
  static SINTER_DEVICE u32 high(u32 codes, const Factors& f) {
    constexpr u32 kSixteenth = 0x2C002C00u;
    if constexpr (kForm == kU4Fused) {
      return Of::mul(Of::fma(codes | kBase, kSixteenth, f.high_shift), f.scale);
    }
    const u32 code = Of::fma(codes | kBase, kSixteenth, 0xD400D400u);  // - 64
    return Of::mul(Of::add(code, f.shift), f.scale);
  }
};

// In f32, rounded once.
template <class Element, bool kNumbers>
struct WideFourBits {
  using Factors = WideFourBitFactors;
  static constexpr float kShrunk = 1;

  static SINTER_DEVICE Factors factors(float scale, float zero) { return {scale, zero}; }
  static SINTER_DEVICE void unpack_two(u32 x, const Factors& f, u32& first, u32& second) {
    if constexpr (kNumbers) {
      // 2^126: the numbers.
      FourBits<BFloat16, kE2M1>::unpack_two(x, {0x7E807E80u, 0, 0, 0}, first, second);
      first = scaled(first, f);
      second = scaled(second, f);
    } else {
      first = Element::pack(weight(x, 0, f), weight(x, 4, f));
      second = Element::pack(weight(x, 1, f), weight(x, 5, f));
    }
  }

 private:
  static SINTER_DEVICE u32 scaled(u32 numbers, const Factors& f) {
    return Element::pack(BFloat16::low(numbers) * f.scale, BFloat16::high(numbers) * f.scale);
  }
  static SINTER_DEVICE float weight(u32 x, int i, const Factors& f) {
    // Below 0x4B000000 is the number 2^23 + code.
    const float code = __uint_as_float(((x >> (4 * i)) & 15u) | 0x4B000000u) - 8388608.0f;
    return (code - f.zero) * f.scale;
  }
};
template <class Element>
struct FourBits<Element, kU4Wide> : WideFourBits<Element, false> {};
template <class Element>
struct FourBits<Element, kE2M1Wide> : WideFourBits<Element, true> {};
template <>
struct FourBits<Float16, kU4Wide> : WideFourBits<Float16, false> {};
template <>
struct FourBits<Float16, kE2M1Wide> : WideFourBits<Float16, true> {};

// The eight elements of x: elements i and i + 4 in v[i].
template <class Weights>
SINTER_DEVICE void unpack_codes(u32 x, const typename Weights::Factors& f, u32 (&v)[4]) {
  Weights::unpack_two(x, f, v[0], v[1]);
  // x >> 8, which no shift to the left joins.
  Weights::unpack_two(__byte_perm(x, 0, 0x4321), f, v[2], v[3]);
}

// One scale or zero from global memory.
SINTER_DEVICE u16 load_global(const u16* p) {
  u16 v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}
SINTER_DEVICE u32 load_global(const u32* p) {
  u32 v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
SINTER_DEVICE float load_global(const float* p) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}

// How kernels lay out a stage: rows of 128 bytes of codes, a column each, and pieces of 8 rows
// times 128 of K, of which a lane has 32 of a row in four words of 16 bytes.
constexpr int kFourBitSpan = 128, kFourBitPieceBytes = 8 * 128 * 2;

// Adds the products of 16 columns and 32 of K of each lane to a warp's sums. `codes`: the address
// of a lane's codes of its first column, eight columns before its second; `rows`: of its word of
// the first piece. Pieces of rows from `count` on are left out, but the first.
template <class Weights, class Element, int kRowTiles>
SINTER_DEVICE void multiply_codes(u32 codes, u32 rows, const typename Weights::Factors& upper,
                                  const typename Weights::Factors& lower, int count,
                                  float (&sums)[kRowTiles][4]) {
  const Word4 first = load_shared_words(codes);
  const Word4 second = load_shared_words(codes + 8 * kFourBitSpan);
  const u32 x[4] = {first.x, first.y, first.z, first.w};
  const u32 y[4] = {second.x, second.y, second.z, second.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    u32 v[4], w[4];
    unpack_codes<Weights>(x[j], upper, v);
    unpack_codes<Weights>(y[j], lower, w);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      if (i > 0 && 8 * i >= count) break;
      const Word4 r = load_shared_words(rows + i * kFourBitPieceBytes + j * 512);
      Packed<Element>::mma(sums[i], v[0], w[0], v[1], w[1], r.x, r.y);
      Packed<Element>::mma(sums[i], v[2], w[2], v[3], w[3], r.z, r.w);
    }
  }
}

// The sums of four columns, of kParts parts in turn: part(i) gives those of one.
template <class Weights, int kParts, class Part>
SINTER_DEVICE void total_of_codes(const Part& part, float (&of)[4]) {
#pragma unroll
  for (int c = 0; c < 4; ++c) of[c] = 0;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const Float4 sum = part(i);
    of[0] += sum.x;
    of[1] += sum.y;
    of[2] += sum.z;
    of[3] += sum.w;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c) of[c] *= 1 / Weights::kShrunk;
}

// Eight neighbours of a row of 16-bit elements, in the order of unpacked weights.
SINTER_DEVICE Word4 pair_order(const Word4& w) {
  return {__byte_perm(w.x, w.z, 0x5410), __byte_perm(w.x, w.z, 0x7632),
          __byte_perm(w.y, w.w, 0x5410), __byte_perm(w.y, w.w, 0x7632)};
}

}  // namespace sinter
