#include "src/base/sha256_rounds.h"
#include "src/base/tree_digest.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // in GCC 12's own header: its bug 105593
#endif
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace sinter {
namespace {

#if defined(__x86_64__)

// ---------------------------------------------------------------- AVX-512: a lane for a message

#define SINTER_AVX512 __attribute__((target("avx512f,avx512bw")))
#define SINTER_AVX512_INLINE __attribute__((target("avx512f,avx512bw"), always_inline)) inline

using Words = __m512i;  // one word of each message

SINTER_AVX512_INLINE Words Add(Words a, Words b) { return _mm512_add_epi32(a, b); }
SINTER_AVX512_INLINE Words Xor(Words a, Words b, Words c) {
  return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

// Row i becomes column i: first 4 x 4 words inside each quarter of the registers, then the
// quarters.
SINTER_AVX512_INLINE void Transpose(Words (&rows)[16]) {
  Words pairs[16], fours[16];
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  for (int i = 0; i < 4;
       ++i) {  // quarter q of fours[4 * g + i] is word 4 * q + i of rows 4 * g ...
    const Words even0 = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0x88);
    const Words odd0 = _mm512_shuffle_i32x4(fours[i], fours[4 + i], 0xdd);
    const Words even1 = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0x88);
    const Words odd1 = _mm512_shuffle_i32x4(fours[8 + i], fours[12 + i], 0xdd);
    rows[i] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    rows[4 + i] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    rows[8 + i] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
    rows[12 + i] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
  }
}

SINTER_AVX512_INLINE Words Expand(const Words (&w)[16], int round) {
  const Words two = w[(round + 14) & 15], fifteen = w[(round + 1) & 15];
  const Words small0 = Xor(_mm512_ror_epi32(fifteen, 7), _mm512_ror_epi32(fifteen, 18),
                           _mm512_srli_epi32(fifteen, 3));
  const Words small1 =
      Xor(_mm512_ror_epi32(two, 17), _mm512_ror_epi32(two, 19), _mm512_srli_epi32(two, 10));
  return Add(Add(w[round & 15], small0), Add(w[(round + 9) & 15], small1));
}

SINTER_AVX512_INLINE void Round(Words (&v)[8], Words word, uint32_t constant) {
  const Words a = v[0], b = v[1], c = v[2], e = v[4], f = v[5], g = v[6];
  const Words big1 = Xor(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
  const Words choice = _mm512_ternarylogic_epi32(e, f, g, 0xca);
  const Words input = Add(v[7], Add(word, _mm512_set1_epi32(static_cast<int>(constant))));
  const Words first = Add(input, Add(big1, choice));
  const Words big0 = Xor(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
  const Words majority = _mm512_ternarylogic_epi32(a, b, c, 0xe8);
  v[7] = g;
  v[6] = f;
  v[5] = e;
  v[4] = Add(v[3], first);
  v[3] = c;
  v[2] = b;
  v[1] = a;
  v[0] = Add(first, Add(big0, majority));
}

SINTER_AVX512 void CompressAvx512(ShaLanes* lanes, const LanePointers& messages, size_t blocks) {
  const Words big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
  Words state[8];
  for (int i = 0; i < 8; ++i) state[i] = _mm512_load_si512(lanes->word[i]);
  for (size_t at = 0; at < blocks * kShaBlock; at += kShaBlock) {
    Words w[16], v[8];
    for (size_t i = 0; i < kShaLanes; ++i) {
      w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(messages[i] + at), big_endian);
    }
    Transpose(w);
    for (int i = 0; i < 8; ++i) v[i] = state[i];
#pragma GCC unroll 64
    for (int round = 0; round < 64; ++round) {
      if (round >= 16) w[round & 15] = Expand(w, round);
      Round(v, w[round & 15], kSha256Round[round]);
    }
    for (int i = 0; i < 8; ++i) state[i] = Add(state[i], v[i]);
  }
  for (int i = 0; i < 8; ++i) _mm512_store_si512(lanes->word[i], state[i]);
}

// ---------------------------------------------------------------- SHA extensions: two at a time

#define SINTER_SHA __attribute__((target("sha,sse4.1,ssse3")))

// Working variables in the order of the instructions: A B E F, C D G H, first to last in memory
// F E B A and H G D C.
struct Pair {
  __m128i abef[2], cdgh[2];
};

SINTER_SHA Pair LoadPair(const ShaLanes& lanes, size_t first) {
  Pair pair;
  for (size_t i = 0; i < 2; ++i) {
    const auto word = [&](int w) { return static_cast<int>(lanes.word[w][first + i]); };
    pair.abef[i] = _mm_set_epi32(word(0), word(1), word(4), word(5));
    pair.cdgh[i] = _mm_set_epi32(word(2), word(3), word(6), word(7));
  }
  return pair;
}

SINTER_SHA void StorePair(const Pair& pair, ShaLanes* lanes, size_t first) {
  constexpr int kOrder[2][4] = {{5, 4, 1, 0}, {7, 6, 3, 2}};
  for (size_t i = 0; i < 2; ++i) {
    alignas(16) uint32_t words[2][4];
    _mm_store_si128(reinterpret_cast<__m128i*>(words[0]), pair.abef[i]);
    _mm_store_si128(reinterpret_cast<__m128i*>(words[1]), pair.cdgh[i]);
    for (int half = 0; half < 2; ++half) {
      for (int j = 0; j < 4; ++j) lanes->word[kOrder[half][j]][first + i] = words[half][j];
    }
  }
}

SINTER_SHA void CompressPair(Pair* pair, const char* const (&messages)[2], size_t at) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i abef[2], cdgh[2], w[2][4];
  for (int lane = 0; lane < 2; ++lane) {
    abef[lane] = pair->abef[lane];
    cdgh[lane] = pair->cdgh[lane];
    for (int i = 0; i < 4; ++i) {
      const auto* word = reinterpret_cast<const __m128i*>(messages[lane] + at + 16 * i);
      w[lane][i] = _mm_shuffle_epi8(_mm_loadu_si128(word), big_endian);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {  // four rounds each
    const __m128i k = _mm_load_si128(reinterpret_cast<const __m128i*>(kSha256Round + 4 * r));
#pragma GCC unroll 2
    for (int lane = 0; lane < 2; ++lane) {
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
  for (int lane = 0; lane < 2; ++lane) {
    pair->abef[lane] = _mm_add_epi32(pair->abef[lane], abef[lane]);
    pair->cdgh[lane] = _mm_add_epi32(pair->cdgh[lane], cdgh[lane]);
  }
}

SINTER_SHA void CompressPairs(ShaLanes* lanes, const LanePointers& messages, size_t blocks) {
  for (size_t first = 0; first < kShaLanes; first += 2) {
    Pair pair = LoadPair(*lanes, first);
    const char* const two[2] = {messages[first], messages[first + 1]};
    for (size_t i = 0; i < blocks; ++i) CompressPair(&pair, two, i * kShaBlock);
    StorePair(pair, lanes, first);
  }
}

bool HasShaExtensions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  const bool sse = (c >> 9 & 1) != 0 && (c >> 19 & 1) != 0;  // SSSE3, SSE4.1
  return sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}

// Asks the operating system too, which must save the registers.
bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
}

#endif  // __x86_64__

}  // namespace

ShaLanes StartLanes() {
  ShaLanes lanes;
  for (int i = 0; i < 8; ++i) {
    for (uint32_t& word : lanes.word[i]) word = kSha256Start[i];
  }
  return lanes;
}

Digest DigestOfLane(const ShaLanes& lanes, size_t lane) {
  Digest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    digest.bytes[i] = static_cast<uint8_t>(lanes.word[i / 4][lane] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::array<CompressLanes, 3> WaysToCompressLanes() {
  std::array<CompressLanes, 3> ways{};
#if defined(__x86_64__)
  size_t count = 0;
  if (HasAvx512()) ways[count++] = CompressAvx512;
  if (HasShaExtensions()) ways[count++] = CompressPairs;
#endif
  return ways;
}

}  // namespace sinter
