#include "tests/bench/graph_check.h"

#include "src/engine/verify.h"
#include "src/reference/reference.h"
#include "tests/bench/rounded_reference.h"
#include "tests/bench/sampled_rows.h"
#include "tests/support/pointers.h"

namespace sinter::bench {
namespace {

constexpr int64_t kSampledRows = 64;
constexpr int64_t kMostRounded =
    1000 * 1000;  // elements of graphs that are also run with roundings

// The chain whose rows are M: the case's own, or a copy. Nothing when rows depend on each other.
std::optional<Chain> RowChain(const GraphCase& c, int64_t* rows) {
  if (c.chain.UsesM()) {
    *rows = c.m;
    return IsRowIndependent(c.chain) ? std::optional<Chain>(c.chain) : std::nullopt;
  }
  const TensorType& type = c.chain.output_type(0);
  if (type.rank() == 0) return std::nullopt;
  *rows = type.dims[0].value;
  return WithRowsAsM(c.chain, *rows);
}

}  // namespace

absl::StatusOr<GraphExpected> GraphExpected::Make(const GraphCase& c,
                                                  const std::vector<std::string>& inputs,
                                                  uint64_t seed, int64_t full_elements) {
  GraphExpected expected;
  for (int i = 0; i < c.chain.num_outputs(); ++i) expected.bounds_.push_back(BoundsOf(c.chain, i));
  if (c.Elements() <= full_elements) {
    expected.how_ = "reference";
    SINTER_ASSIGN_OR_RETURN(expected.values_, RunReferenceF64(c.chain, c.m, PointersTo(inputs)));
    if (c.Elements() > std::min(full_elements, kMostRounded)) return expected;
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::vector<double>> rounded,
                            RunRoundedReference(c.chain, c.m, PointersTo(inputs)));
    for (size_t i = 0; i < rounded.size(); ++i) {
      expected.bounds_[i] =
          BoundsWithRoundings(expected.bounds_[i], rounded[i], expected.values_[i],
                              c.chain.output_type(static_cast<int>(i)).dtype);
    }
    return expected;
  }
  int64_t rows = 0;
  const std::optional<Chain> chain = RowChain(c, &rows);
  if (!chain.has_value() || rows <= kSampledRows) {
    expected.how_ = "unfused plan";
    return expected;
  }
  expected.rows_ = SampledRows(rows, kSampledRows, seed);
  expected.how_ = absl::StrCat("reference, ", kSampledRows, " rows");
  ReferenceOptions options{.rows = &expected.rows_};
  // Inputs of the copy are in the same canonical order, because its ops are the chain's.
  SINTER_ASSIGN_OR_RETURN(expected.values_,
                          RunReferenceF64(*chain, rows, PointersTo(inputs), options));
  return expected;
}

absl::StatusOr<GraphExpected> GraphExpected::MakeExact(const GraphCase& c,
                                                       const std::vector<std::string>& inputs) {
  GraphExpected expected;
  expected.how_ = "reference";
  expected.bounds_.resize(static_cast<size_t>(c.chain.num_outputs()));
  SINTER_ASSIGN_OR_RETURN(expected.values_, RunReferenceF64(c.chain, c.m, PointersTo(inputs)));
  return expected;
}

absl::Status GraphExpected::SetFromOutputs(const GraphCase& c,
                                           const std::vector<std::string>& outputs) {
  values_.clear();
  for (int i = 0; i < c.chain.num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(std::vector<double> values, OutputValues(c.chain, i, c.m, outputs[i]));
    values_.push_back(std::move(values));
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphErrors> GraphExpected::Judge(const GraphCase& c,
                                                 const std::vector<std::string>& outputs) const {
  if (NeedsOutputs()) {
    return absl::FailedPreconditionError("nothing to compare with: the unfused plan did not run");
  }
  GraphErrors errors;
  for (int i = 0; i < c.chain.num_outputs(); ++i) {
    const TensorType& type = c.chain.output_type(i);
    SINTER_ASSIGN_OR_RETURN(std::vector<double> got, OutputValues(c.chain, i, c.m, outputs[i]));
    if (!rows_.empty()) got = Picked(got, rows_, type.dims[0].At(c.m));
    const ErrorMeasure measure = Compare(got, values_[i], type.dtype);
    if (!measure.Within(bounds_[static_cast<size_t>(i)])) {
      return absl::DataLossError(
          absl::StrCat("output ", i, ", ", ToString(type), ": ", measure.ToString()));
    }
    if (type.dtype == DType::kE4M3) continue;
    errors.relative = std::max(errors.relative, measure.relative);
    errors.max_over_rms = std::max(errors.max_over_rms, measure.max_over_rms);
  }
  return errors;
}

}  // namespace sinter::bench
