#include "cache/store/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header: its bug 105593
#endif
#include <immintrin.h>
#endif

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

// The register `crc` after `data`.
__attribute__((target("sse4.2"))) uint32_t Stripes(uint64_t crc, absl::string_view data) {
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
  return narrow;
}

// ---------------------------------------------------------------- carry-less multiplication

// A block of 16 bytes has the checksum of 16 others that lie `bits` behind it, if its first half is
// multiplied by x^(bits + 32) and its second by x^(bits - 32), modulo the polynomial: blocks are
// folded onto later ones until one is left. Gueron and Kounavis' method, sixteen blocks at a time.
struct Fold {
  uint64_t first, second;
};

constexpr uint64_t PowerOfX(int n) {
  uint32_t power = 0x80000000u;  // bits reversed: x^0
  for (int i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  return uint64_t{power} << 1;
}
constexpr Fold FoldBy(int bits) { return {PowerOfX(bits + 32), PowerOfX(bits - 32)}; }

constexpr size_t kFoldBytes = 256;
constexpr Fold kFold2048 = FoldBy(2048), kFold512 = FoldBy(512), kFold128 = FoldBy(128);

#define SINTER_CLMUL __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))

SINTER_CLMUL inline __m512i FoldOnto(__m512i blocks, const Fold& fold, __m512i onto) {
  const __m512i by = _mm512_broadcast_i32x4(
      _mm_set_epi64x(static_cast<int64_t>(fold.second),  // of the second half
                     static_cast<int64_t>(fold.first)));
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(blocks, by, 0x00),
                                   _mm512_clmulepi64_epi128(blocks, by, 0x11), onto, 0x96);
}

SINTER_CLMUL inline __m128i FoldOnto(__m128i block, const Fold& fold, __m128i onto) {
  const __m128i by =
      _mm_set_epi64x(static_cast<int64_t>(fold.second), static_cast<int64_t>(fold.first));
  return _mm_xor_si128(onto, _mm_xor_si128(_mm_clmulepi64_si128(block, by, 0x00),
                                           _mm_clmulepi64_si128(block, by, 0x11)));
}

// The register after `data`, of kFoldBytes at least.
SINTER_CLMUL uint32_t Folded(absl::string_view data) {
  __m512i four[4];
  for (int i = 0; i < 4; ++i) four[i] = _mm512_loadu_si512(data.data() + 64 * i);
  four[0] = _mm512_xor_si512(four[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
  data.remove_prefix(kFoldBytes);
  for (; data.size() >= kFoldBytes; data.remove_prefix(kFoldBytes)) {
    for (int i = 0; i < 4; ++i)
      four[i] = FoldOnto(four[i], kFold2048, _mm512_loadu_si512(data.data() + 64 * i));
  }
  for (int i = 1; i < 4; ++i) four[i] = FoldOnto(four[i - 1], kFold512, four[i]);
  alignas(64) __m128i blocks[4];
  _mm512_store_si512(blocks, four[3]);
  for (int i = 1; i < 4; ++i) blocks[i] = FoldOnto(blocks[i - 1], kFold128, blocks[i]);
  char last[16];
  std::memcpy(last, &blocks[3], sizeof(last));
  return Stripes(Stripes(0, absl::string_view(last, sizeof(last))), data);
}

bool HasWideClmul() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 &&
         __builtin_cpu_supports("pclmul") != 0;
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
  if (__builtin_cpu_supports("sse4.2")) {
    static const bool kWide = HasWideClmul();
    return ~(kWide && data.size() >= kFoldBytes ? Folded(data) : Stripes(0xffffffffu, data));
  }
#endif
  return Crc32cFallback(data);
}

uint32_t Crc32cStriped(absl::string_view data) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~Stripes(0xffffffffu, data);
#endif
  return Crc32cFallback(data);
}

}  // namespace sinter
