#include "tests/bench/check.h"

#include "src/engine/verify.h"
#include "src/reference/reference.h"
#include "tests/bench/sampled_rows.h"
#include "tests/support/pointers.h"

namespace sinter::bench {
namespace {

constexpr double kFullReferenceFlop = 5e10;
constexpr int64_t kSampledProductRows = 64;

}  // namespace

absl::StatusOr<Expected> Expected::Make(const Case& c, const std::vector<std::string>& inputs,
                                        int64_t check_rows, uint64_t seed) {
  Expected expected;
  const bool codes = c.IsOfCodes();
  expected.bounds_ = codes ? BoundsOf(c.chain, 0) : BoundsFor(c.matched.sequence.element());
  const int64_t of_m = c.matched.sequence.rows_per_m;  // pixels of an image
  if (check_rows == 0)
    check_rows = !codes && c.Flop() <= kFullReferenceFlop ? c.m * of_m : kSampledProductRows;
  ReferenceOptions options{.skip_final_cast = !codes};
  const bool independent = IsRowIndependent(c.chain);
  expected.rows_ = SampledRows(c.m, independent ? (check_rows + of_m - 1) / of_m : c.m, seed);
  if (independent) options.rows = &expected.rows_;
  SINTER_ASSIGN_OR_RETURN(auto outputs, RunReferenceF64(c.chain, c.m, PointersTo(inputs), options));
  expected.values_ = std::move(outputs[0]);
  return expected;
}

absl::StatusOr<ErrorMeasure> Expected::Compare(const Case& c, const std::string& output) const {
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> all, OutputValues(c.chain, 0, c.m, output));
  return sinter::Compare(Picked(all, rows_, c.m), values_);
}

}  // namespace sinter::bench
