#include "tests/bench/check.h"

#include "src/base/status.h"
#include "src/engine/trial_data.h"
#include "tests/gpu/ffn_reference.h"

namespace sinter::bench {
namespace {

constexpr double kFullReferenceFlop = 5e10;
constexpr int64_t kSampledProductRows = 64;

}  // namespace

absl::StatusOr<Expected> Expected::Make(const Case& c, const std::vector<std::string>& inputs,
                                        int64_t check_rows, uint64_t seed) {
  Expected expected;
  const int64_t rows = c.m * c.matched.sequence.rows_per_m;
  if (check_rows == 0) check_rows = c.Flop() <= kFullReferenceFlop ? rows : kSampledProductRows;
  expected.rows_ = gpu_testing::SampledRows(rows, check_rows, seed);
  SINTER_ASSIGN_OR_RETURN(expected.values_,
                          gpu_testing::FfnReference(c.chain, c.m, inputs, expected.rows_));
  return expected;
}

absl::StatusOr<ErrorMeasure> Expected::Compare(const Case& c, const std::string& output) const {
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> all, OutputValues(c.chain, 0, c.m, output));
  const int64_t columns = c.matched.sequence.back().n;
  std::vector<double> picked;
  picked.reserve(values_.size());
  for (int64_t row : rows_) {
    const auto from = all.begin() + row * columns;
    picked.insert(picked.end(), from, from + columns);
  }
  return sinter::Compare(picked, values_);
}

}  // namespace sinter::bench
