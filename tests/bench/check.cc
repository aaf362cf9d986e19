#include "tests/bench/check.h"

#include "src/engine/verify.h"
#include "src/reference/reference.h"
#include "tests/gpu/ffn_reference.h"

namespace sinter::bench {
namespace {

constexpr double kFullReferenceFlop = 5e10;
constexpr int64_t kSampledProductRows = 64;

// Rows of M of a chain of codes, which may have quantisers; all where rows depend on each other.
absl::StatusOr<std::vector<double>> CodesReference(const Case& c,
                                                   const std::vector<std::string>& inputs,
                                                   std::vector<int64_t>* rows) {
  std::vector<const void*> pointers;
  for (const std::string& input : inputs) pointers.push_back(input.data());
  ReferenceOptions options;
  if (IsRowIndependent(c.chain)) {
    options.rows = rows;
  } else {
    *rows = gpu_testing::AllRows(c.m);
  }
  SINTER_ASSIGN_OR_RETURN(auto outputs, RunReferenceF64(c.chain, c.m, pointers, options));
  return std::move(outputs[0]);
}

}  // namespace

absl::StatusOr<Expected> Expected::Make(const Case& c, const std::vector<std::string>& inputs,
                                        int64_t check_rows, uint64_t seed) {
  Expected expected;
  const bool codes = c.IsOfCodes();
  expected.bounds_ = codes ? BoundsOf(c.chain, 0) : BoundsFor(c.matched.sequence.element());
  const int64_t rows = c.m * c.matched.sequence.rows_per_m;
  if (check_rows == 0)
    check_rows = !codes && c.Flop() <= kFullReferenceFlop ? rows : kSampledProductRows;
  expected.rows_ = gpu_testing::SampledRows(rows, check_rows, seed);
  if (codes) {
    SINTER_ASSIGN_OR_RETURN(expected.values_, CodesReference(c, inputs, &expected.rows_));
    return expected;
  }
  SINTER_ASSIGN_OR_RETURN(expected.values_,
                          gpu_testing::FfnReference(c.chain, c.m, inputs, expected.rows_));
  return expected;
}

absl::StatusOr<ErrorMeasure> Expected::Compare(const Case& c, const std::string& output) const {
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> all, OutputValues(c.chain, 0, c.m, output));
  const int64_t columns = c.chain.output_type(0).dims.back().value;
  std::vector<double> picked;
  picked.reserve(values_.size());
  for (int64_t row : rows_) {
    const auto from = all.begin() + row * columns;
    picked.insert(picked.end(), from, from + columns);
  }
  return sinter::Compare(picked, values_);
}

}  // namespace sinter::bench
