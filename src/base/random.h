// SplitMix64: random numbers that are the same on every machine and with every standard library.
#ifndef SINTER_SRC_BASE_RANDOM_H_
#define SINTER_SRC_BASE_RANDOM_H_

#include <cstdint>

namespace sinter {

// Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // in [0, 1)

 private:
  uint64_t state_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_RANDOM_H_
