// Conversions from and to e4m3 for chips without the instructions, those before sm_89. Their bits
// are the instructions' own. Included after ptx/types.cuh.
#pragma once

namespace sinter {

// Rounded to nearest even; saturates to +-448, infinities too. Every NaN becomes 0x7f.
SINTER_DEVICE u32 e4m3_of(float x) {
  const u32 bits = __float_as_uint(x), size = bits & 0x7FFFFFFFu, sign = bits >> 24 & 0x80u;
  if (size > 0x7F800000u) return 0x7F;
  if (size >= 0x43E00000u) return sign | 0x7E;
  // Below 2^-6 codes count 2^-9, the last bit of a float at 2^14: the addition rounds to it.
  if (size < 0x3C800000u) {
    return sign | (__float_as_uint(__uint_as_float(size) + 16384.0f) - 0x46800000u);
  }
  // 20 bits of the mantissa go, and the exponent's bias falls from 127 to 7.
  return sign | ((size + 0x7FFFFu + (size >> 20 & 1u) - (120u << 23)) >> 20);
}

// The value of the low 8 bits, exactly.
SINTER_DEVICE float float_of_e4m3(u32 code) {
  const u32 size = code & 0x7Fu, sign = (code & 0x80u) << 24;
  if (size == 0x7F) return __uint_as_float(0x7FC00000u);
  const float value = size < 8 ? __uint_as_float(0x46800000u + size) - 16384.0f
                               : __uint_as_float((size << 20) + (120u << 23));
  return __uint_as_float(sign | __float_as_uint(value));
}

}  // namespace sinter
