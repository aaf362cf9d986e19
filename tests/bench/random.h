// Random: random numbers in a range.
#pragma once

#include <cstdint>

#include "src/base/numbers.h"

namespace sinter::bench {

class Random : public SplitMix64 {
 public:
  using SplitMix64::SplitMix64;
  // In [low, high], which is small compared with 2^64.
  int64_t In(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Next() % static_cast<uint64_t>(high - low + 1));
  }
};

}  // namespace sinter::bench
