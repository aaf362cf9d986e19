// Evaluate: the number that an index is, given the kernel's loop variables.
#pragma once

#include "src/stitch/index.h"
#include "tests/support/common.h"

namespace sinter::testing {

using LoopValues = std::map<IndexVar, int64_t>;  // and of values read from memory

// The value of a canonical index, computed as by generated source, with C++'s division.
inline int64_t EvaluateCanonical(const IndexSpace& space, const Index& index,
                                 const LoopValues& loops) {
  int64_t sum = index.offset();
  for (const auto& [v, factor] : index.terms()) {
    const IndexSpace::Var& var = space.var(v);
    int64_t value = 0;
    if (var.kind == IndexSpace::Var::kLoop || var.kind == IndexSpace::Var::kRead) {
      value = loops.at(v);
    } else {
      const int64_t of = EvaluateCanonical(space, var.of, loops);
      value = var.kind == IndexSpace::Var::kQuotient  ? of / var.divisor
              : var.kind == IndexSpace::Var::kNearest ? std::clamp<int64_t>(of, 0, var.divisor - 1)
                                                      : of % var.divisor;
    }
    sum += factor * value;
  }
  return sum;
}

inline int64_t Evaluate(IndexSpace& space, const Index& index, const LoopValues& loops) {
  return EvaluateCanonical(space, space.Canonical(index), loops);
}

}  // namespace sinter::testing
