// Hopper's rules for shared-memory operands, written down from the PTX manual and independent of
// the device library: where TMA puts an element, where wgmma fetches one, what a thread holds.
#pragma once

#include <cstdint>

namespace sinter {
namespace hardware {

constexpr uint32_t kWindow = 1 << 18;  // bytes that a descriptor can address
constexpr int kBoxBytes = 128;         // a row of a box of the 128-byte swizzle
constexpr int kBoxColumns = 64;        // the same of 16-bit elements
constexpr int kMostTap = 255;          // largest tap distance in pixels, of im2col maps of rank 4

// The 128-byte swizzle: address bits 4-6 are XORed with bits 7-9.
constexpr uint32_t Swizzle128(uint32_t address) { return address ^ ((address >> 7 & 7) << 4); }

// Where TMA puts element (row, column) of a box of elements of `bytes`. `destination` on 1024
// bytes.
constexpr uint32_t TmaAddress(uint32_t destination, int row, int column, int bytes = 2) {
  return Swizzle128(destination + static_cast<uint32_t>(row * kBoxBytes + column * bytes));
}

struct Descriptor {
  uint32_t start, leading, stride, base_offset, swizzle, unused;
};

constexpr Descriptor Decode(uint64_t bits) {
  return {static_cast<uint32_t>(bits & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 16 & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 32 & 0x3FFF) << 4,
          static_cast<uint32_t>(bits >> 49 & 7),
          static_cast<uint32_t>(bits >> 62 & 3),
          static_cast<uint32_t>((bits >> 14 & 3) | (bits >> 30 & 3) | (bits >> 46 & 7) |
                                (bits >> 52 & 0x3FF))};
}

constexpr bool Is128ByteSwizzle(const Descriptor& d) {
  return d.swizzle == 1 && d.base_offset == 0 && d.unused == 0;
}

// Where wgmma fetches element (mn, k) of one step of 32 bytes of K from. K-major: atoms of 8 rows
// of M or N x 128 bytes of K, `stride` apart. Else MN-major, 16-bit elements only: atoms of 64
// elements of M or N x 8 of K, `leading` apart along M or N and `stride` apart along K.
constexpr uint32_t FetchAddress(const Descriptor& d, bool k_major, int mn, int k, int bytes = 2) {
  const uint32_t a = static_cast<uint32_t>(mn), b = static_cast<uint32_t>(k);
  return Swizzle128(
      k_major ? d.start + a / 8 * d.stride + a % 8 * 128 + b * static_cast<uint32_t>(bytes)
              : d.start + a / 64 * d.leading + b / 8 * d.stride + b % 8 * 128 + a % 64 * 2);
}

struct Place {
  int row, column;
};

// What register d[index] of thread 0..127 holds after m64nN.
constexpr Place AccumulatorPlace(int thread, int index) {
  const int warp = thread / 32, lane = thread % 32;
  return {16 * warp + lane / 4 + (index % 4 >= 2 ? 8 : 0),
          8 * (index / 4) + 2 * (lane % 4) + index % 2};
}

}  // namespace hardware
}  // namespace sinter
