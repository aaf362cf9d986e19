// The hardware's units of bytes, and how many elements of a type each of them holds. Plain
// constexpr, the same text on host and device.
#pragma once

namespace sinter {

constexpr int kRowBytes = 128;    // a row of the 128-byte swizzle
constexpr int kStepBytes = 32;    // K of one wgmma
constexpr int kVectorBytes = 16;  // the widest access of a thread; the swizzle keeps it together

// Of elements that memory holds as `Stored_`. The host's table is src/product/operand.h.
template <class Stored_>
struct ElementSizes {
  using Stored = Stored_;
  static constexpr int kBytes = sizeof(Stored);
  static constexpr int kSwizzleSpan = kRowBytes / kBytes;
  static constexpr int kWgmmaK = kStepBytes / kBytes;
  static constexpr int kVector = kVectorBytes / kBytes;
  // Whether the tensor cores sum too coarsely for a long K: of 8-bit floats they keep 13 fraction
  // bits. Every row of the swizzle is then summed apart, and added in f32.
  static constexpr bool kPromoted = false;
  // What the tensor cores sum products in; exact: integers.
  using Sum = float;
  static constexpr bool kExact = false;
};

}  // namespace sinter
