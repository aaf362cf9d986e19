#include "cache/store/crc32c.h"

#include <array>
#include <cstring>

namespace sinter {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Castagnoli, bits reversed
constexpr int kTables = 8;

using Tables = std::array<std::array<uint32_t, 256>, kTables>;

// kTable[t][b]: the checksum of byte b followed by t zero bytes ("slicing by eight").
constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (int t = 1; t < kTables; ++t) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[t - 1][byte];
      tables[t][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTable = MakeTables();

uint32_t OneByte(uint32_t crc, char byte) {
  return (crc >> 8) ^ kTable[0][(crc ^ static_cast<uint8_t>(byte)) & 0xff];
}

#if defined(__x86_64__)
// The instruction takes three cycles and can start every cycle: three stripes at once, joined by
// shifting the checksum of what lies before over the length of a stripe.
constexpr size_t kStripe = 1024;

// kShift[i][b]: the checksum register whose byte i is b, after kStripe zero bytes.
using ShiftTables = std::array<std::array<uint32_t, 256>, 4>;

constexpr ShiftTables MakeShift() {
  // The register after kStripe zero bytes is linear in its bits: shift each bit, then sum.
  uint32_t bits[32] = {};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kStripe; ++i) crc = (crc >> 8) ^ kTable[0][crc & 0xff];
    bits[bit] = crc;
  }
  ShiftTables shift{};
  for (int i = 0; i < 4; ++i) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        if ((byte >> bit & 1) != 0) shift[i][byte] ^= bits[8 * i + bit];
      }
    }
  }
  return shift;
}

constexpr ShiftTables kShift = MakeShift();

uint32_t ShiftOverStripe(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^
         kShift[3][crc >> 24];
}

uint64_t Word(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t Hardware(absl::string_view data) {
  uint64_t crc = 0xffffffffu;
  for (; data.size() >= 3 * kStripe; data.remove_prefix(3 * kStripe)) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kStripe; i += 8) {
      crc = __builtin_ia32_crc32di(crc, Word(data.data() + i));
      second = __builtin_ia32_crc32di(second, Word(data.data() + kStripe + i));
      third = __builtin_ia32_crc32di(third, Word(data.data() + 2 * kStripe + i));
    }
    const uint32_t two =
        ShiftOverStripe(static_cast<uint32_t>(crc)) ^ static_cast<uint32_t>(second);
    crc = ShiftOverStripe(two) ^ static_cast<uint32_t>(third);
  }
  for (; data.size() >= 8; data.remove_prefix(8)) {
    crc = __builtin_ia32_crc32di(crc, Word(data.data()));
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (const char byte : data) narrow = OneByte(narrow, byte);
  return ~narrow;
}
#endif

}  // namespace

uint32_t Crc32cFallback(absl::string_view data) {
  uint32_t crc = 0xffffffffu;
  while (data.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, data.data(), sizeof(word));
    word ^= crc;  // little-endian, as everything here
    crc = 0;
    for (int i = 0; i < kTables; ++i) crc ^= kTable[kTables - 1 - i][(word >> (8 * i)) & 0xff];
    data.remove_prefix(8);
  }
  for (const char byte : data) crc = OneByte(crc, byte);
  return ~crc;
}

uint32_t Crc32c(absl::string_view data) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Hardware(data);
#endif
  return Crc32cFallback(data);
}

}  // namespace sinter
