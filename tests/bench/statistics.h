// Statistics that the modes report.
#pragma once

#include "tests/support/common.h"

namespace sinter::bench {

// 1 for no values; values are above 0.
double GeometricMean(const std::vector<double>& values);

// `percent` of 100, linear between order statistics (Hyndman and Fan's type 7). 0 for no values.
double Percentile(std::vector<double> values, double percent);

enum class Strata {
  kTime,   // equal ratios of time from the fastest to the slowest
  kCount,  // equal numbers of schedules
};

// Indices, ascending, of at most `count` of `times` (ascending, above 0), drawn one from each of
// `count` strata by a generator that starts at `seed`. A stratum without members leaves its place
// to the indices that are still free, evenly. All indices when there are no more than `count`.
std::vector<size_t> Stratified(const std::vector<double>& times, size_t count, Strata strata,
                               uint64_t seed);

// 0 .. count-1 in an order drawn from `seed` (Fisher and Yates).
std::vector<size_t> Shuffled(size_t count, uint64_t seed);

}  // namespace sinter::bench
