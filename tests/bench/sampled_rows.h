// Rows of M by which a large output is judged.
#pragma once

#include "tests/support/common.h"

namespace sinter::bench {

// Up to `count` of the rows 0 .. m-1: both ends, both sides of every multiple of 64 near them, the
// rest drawn from `seed`. Sorted, distinct.
inline std::vector<int64_t> SampledRows(int64_t m, int64_t count, uint64_t seed) {
  std::set<int64_t> rows;
  const int64_t last = (m - 1) / 64 * 64;
  count = std::min(count, m);
  for (int64_t row : {int64_t{0}, m - 1, last, last - 1, int64_t{63}, int64_t{64}}) {
    if (row >= 0 && row < m && static_cast<int64_t>(rows.size()) < count) rows.insert(row);
  }
  std::mt19937_64 random(seed);
  while (static_cast<int64_t>(rows.size()) < count) {
    rows.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(m)));
  }
  return {rows.begin(), rows.end()};
}

// Those rows of an output's values, of which M is the first of `m` entries.
inline std::vector<double> Picked(const std::vector<double>& all, const std::vector<int64_t>& rows,
                                  int64_t m) {
  const int64_t length = static_cast<int64_t>(all.size()) / m;
  std::vector<double> picked;
  for (int64_t row : rows) {
    const auto from = all.begin() + row * length;
    picked.insert(picked.end(), from, from + length);
  }
  return picked;
}

}  // namespace sinter::bench
