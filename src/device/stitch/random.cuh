// Random numbers of a seed and a place: Philox4x32-10.
#pragma once
#include "stitch/places.cuh"

namespace sinter {

// Word 0 of the block of counter `counter`.
SINTER_DEVICE u32 philox(unsigned long long key, unsigned long long counter) {
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  u32 c0 = static_cast<u32>(counter), c1 = static_cast<u32>(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = static_cast<unsigned long long>(c0) * 0xD2511F53u;
    const unsigned long long b = static_cast<unsigned long long>(c2) * 0xCD9E8D57u;
    c0 = static_cast<u32>(b >> 32) ^ c1 ^ k0;
    c2 = static_cast<u32>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<u32>(b);
    c3 = static_cast<u32>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

// In [0, 1): of numbers with the highest bit the complement, times less than 2^-31.
SINTER_DEVICE float uniform_at(long long seed, long long offset, long long place) {
  const int bits = static_cast<int>(
      philox(static_cast<unsigned long long>(seed),
             static_cast<unsigned long long>(offset) + static_cast<unsigned long long>(place)));
  return static_cast<float>(bits < 0 ? ~bits : bits) * 4.6566127342e-10f;
}

}  // namespace sinter
