#include "src/base/pair_digest.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/base/sha256_rounds.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sinter {
namespace {

constexpr size_t kBlock = 64;

struct Halves {
  absl::string_view first, second;
};

Halves Split(absl::string_view data) {
  const size_t middle = std::min(data.size(), (data.size() + 127) / 128 * kBlock);
  return {data.substr(0, middle), data.substr(middle)};
}

Digest Join(const Digest& first, const Digest& second) {
  char both[64];
  std::memcpy(both, first.bytes.data(), 32);
  std::memcpy(both + 32, second.bytes.data(), 32);
  return Sha256(absl::string_view(both, sizeof(both)));
}

#if defined(__x86_64__)
#define SINTER_SHA __attribute__((target("sha,sse4.1,ssse3")))

bool HasShaExtensions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const bool sse = (c >> 9 & 1) != 0 && (c >> 19 & 1) != 0;  // SSSE3, SSE4.1
  return sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

// Working variables in the order of the instructions: A B E F, C D G H.
struct State {
  __m128i abef, cdgh;
};

SINTER_SHA State Start() {
  State s;
  s.abef = _mm_set_epi32(0x6a09e667, static_cast<int>(0xbb67ae85), 0x510e527f,
                         static_cast<int>(0x9b05688c));
  s.cdgh = _mm_set_epi32(0x3c6ef372, static_cast<int>(0xa54ff53a), 0x1f83d9ab, 0x5be0cd19);
  return s;
}

// `blocks` blocks of each of `kLanes` messages. One message alone waits for its own results.
template <int kLanes>
SINTER_SHA void Compress(State (&states)[kLanes], const char* (&at)[kLanes], size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  for (; blocks > 0; --blocks) {
    __m128i abef[kLanes], cdgh[kLanes], w[kLanes][4];
    for (int lane = 0; lane < kLanes; ++lane) {
      abef[lane] = states[lane].abef;
      cdgh[lane] = states[lane].cdgh;
      for (int i = 0; i < 4; ++i) {
        const auto* word = reinterpret_cast<const __m128i*>(at[lane] + 16 * i);
        w[lane][i] = _mm_shuffle_epi8(_mm_loadu_si128(word), big_endian);
      }
      at[lane] += kBlock;
    }
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) {  // four rounds each
      const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Round + 4 * r));
#pragma GCC unroll 2
      for (int lane = 0; lane < kLanes; ++lane) {
        __m128i(&v)[4] = w[lane];
        if (r >= 4) {
          const __m128i older = _mm_sha256msg1_epu32(v[r & 3], v[(r + 1) & 3]);
          const __m128i seven = _mm_alignr_epi8(v[(r + 3) & 3], v[(r + 2) & 3], 4);
          v[r & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(older, seven), v[(r + 3) & 3]);
        }
        const __m128i wk = _mm_add_epi32(v[r & 3], k);
        cdgh[lane] = _mm_sha256rnds2_epu32(cdgh[lane], abef[lane], wk);
        abef[lane] = _mm_sha256rnds2_epu32(abef[lane], cdgh[lane], _mm_shuffle_epi32(wk, 0x0e));
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      states[lane].abef = _mm_add_epi32(states[lane].abef, abef[lane]);
      states[lane].cdgh = _mm_add_epi32(states[lane].cdgh, cdgh[lane]);
    }
  }
}

// What is left of `message` behind `done` whole blocks, with its padding.
SINTER_SHA Digest Finish(State state, absl::string_view message, size_t done) {
  State states[1] = {state};
  const char* at[1] = {message.data() + done * kBlock};
  const size_t whole = message.size() / kBlock;
  Compress<1>(states, at, whole - done);
  char tail[2 * kBlock] = {};
  const size_t rest = message.size() % kBlock;
  if (rest > 0) std::memcpy(tail, message.data() + whole * kBlock, rest);
  tail[rest] = static_cast<char>(0x80);
  const size_t padded = rest + 9 <= kBlock ? kBlock : 2 * kBlock;
  const uint64_t bits = uint64_t{message.size()} * 8;
  for (int i = 0; i < 8; ++i) {
    tail[padded - 1 - static_cast<size_t>(i)] = static_cast<char>(bits >> (8 * i));
  }
  at[0] = tail;
  Compress<1>(states, at, padded / kBlock);
  alignas(16) uint32_t high[4], low[4];  // F E B A, H G D C
  _mm_store_si128(reinterpret_cast<__m128i*>(high), states[0].abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(low), states[0].cdgh);
  const uint32_t words[8] = {high[3], high[2], low[3], low[2], high[1], high[0], low[1], low[0]};
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<uint8_t>(words[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

SINTER_SHA Digest PairInHardware(const Halves& halves) {
  State states[2] = {Start(), Start()};
  const char* at[2] = {halves.first.data(), halves.second.data()};
  const size_t both = std::min(halves.first.size(), halves.second.size()) / kBlock;
  Compress<2>(states, at, both);
  return Join(Finish(states[0], halves.first, both), Finish(states[1], halves.second, both));
}
#endif

}  // namespace

Digest PairSha256Fallback(absl::string_view data) {
  const Halves halves = Split(data);
  return Join(Sha256(halves.first), Sha256(halves.second));
}

Digest PairSha256(absl::string_view data) {
#if defined(__x86_64__)
  static const bool kHardware = HasShaExtensions();
  if (kHardware) return PairInHardware(Split(data));
#endif
  return PairSha256Fallback(data);
}

}  // namespace sinter
