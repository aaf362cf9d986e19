// Random: a generator of numbers that is the same on every machine and with every standard library.
#ifndef SINTER_TESTS_BENCH_RANDOM_H_
#define SINTER_TESTS_BENCH_RANDOM_H_

#include <cstdint>

namespace sinter::bench {

// SplitMix64 (Steele, Lea, Flood; OOPSLA 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  // In [low, high], which is small beside 2^64.
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

}  // namespace sinter::bench

#endif  // SINTER_TESTS_BENCH_RANDOM_H_
