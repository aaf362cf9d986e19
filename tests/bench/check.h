// Checking an output against the float64 reference.
#pragma once

#include "src/reference/compare.h"
#include "tests/bench/cases.h"

namespace sinter::bench {

// The reference of some rows of a case's output. Immutable.
class Expected {
 public:
  // `check_rows` as MeasureOptions has it. Blocks on all cores.
  static absl::StatusOr<Expected> Make(const Case& c, const std::vector<std::string>& inputs,
                                       int64_t check_rows, uint64_t seed);
  // `output`: the whole output's bytes.
  absl::StatusOr<ErrorMeasure> Compare(const Case& c, const std::string& output) const;
  const Bounds& bounds() const { return bounds_; }  // of what Compare measures

 private:
  std::vector<int64_t> rows_;  // of M
  std::vector<double> values_;
  Bounds bounds_;
};

}  // namespace sinter::bench
