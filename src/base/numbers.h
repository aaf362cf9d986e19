// Rounding of counts, the median of measurements, random numbers that are alike everywhere.
#ifndef SINTER_SRC_BASE_NUMBERS_H_
#define SINTER_SRC_BASE_NUMBERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sinter {

// How many parts of size `b` cover `a` >= 0. It is 0 where `b` is not positive: the sizes of a
// schedule are computed before the schedule is checked.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return b > 0 ? (a + b - 1) / b : 0; }

// The multiple of `b` at or above `a` >= 0.
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// The median of measurements: of an even number the larger of the two in the middle. Precondition:
// there is a value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// SplitMix64: random numbers that are the same on every machine and with every standard library.

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

#endif  // SINTER_SRC_BASE_NUMBERS_H_
