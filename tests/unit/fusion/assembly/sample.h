// How many chains a run takes.
#pragma once

#include "tests/support/drawn.h"
#include "tests/unit/fusion/assembly/chains.h"

namespace sinter::testing {

inline bool IsLongRun() { return IsLongSweep(); }

// A ninth in an everyday run, which the commit draws; all with SINTER_TEST_LONG=1.
inline std::vector<NamedChain> SampleOf(std::vector<NamedChain> all) {
  if (IsLongRun()) return all;
  std::vector<NamedChain> sample;
  for (size_t i = 0; i < all.size(); ++i) {
    if (IsDrawn(i, 9)) sample.push_back(std::move(all[i]));
  }
  return sample;
}

}  // namespace sinter::testing
