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
__attribute__((target("sse4.2"))) uint32_t Hardware(absl::string_view data) {
  uint64_t crc = 0xffffffffu;
  while (data.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, data.data(), sizeof(word));
    crc = __builtin_ia32_crc32di(crc, word);
    data.remove_prefix(8);
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
