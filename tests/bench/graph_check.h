// GraphExpected: what a graph's outputs must be, and how that is known.
#pragma once

#include "src/reference/compare.h"
#include "tests/bench/graph_cases.h"

namespace sinter::bench {

// The worst errors of one run.
struct GraphErrors {
  double relative = 0, max_over_rms = 0;  // e4m3 outputs, which are judged by steps, left out
};

// Immutable.
class GraphExpected {
 public:
  // `how()`: "reference", the whole graph, up to 5e7 elements in the largest value; above that
  // "reference, 64 rows" when no op mixes rows, drawn from `seed`; else "unfused plan", and
  // SetFromOutputs must follow. Blocks on all cores.
  static absl::StatusOr<GraphExpected> Make(const GraphCase& c,
                                            const std::vector<std::string>& inputs, uint64_t seed,
                                            int64_t full_elements = 50 * 1000 * 1000);
  // Every bit of the reference: of graphs that are exact in f32.
  static absl::StatusOr<GraphExpected> MakeExact(const GraphCase& c,
                                                 const std::vector<std::string>& inputs);
  const std::string& how() const { return how_; }
  bool NeedsOutputs() const { return values_.empty(); }
  absl::Status SetFromOutputs(const GraphCase& c, const std::vector<std::string>& outputs);

  // DATA_LOSS naming the output when one is outside its bounds: BoundsOf, and of graphs of up to
  // 1e6 elements BoundsWithRoundings. FAILED_PRECONDITION before SetFromOutputs where that is
  // needed.
  absl::StatusOr<GraphErrors> Judge(const GraphCase& c,
                                    const std::vector<std::string>& outputs) const;

 private:
  std::string how_;
  std::vector<int64_t> rows_;                // empty: all; of axis 0 of every output
  std::vector<std::vector<double>> values_;  // of each output, those rows
  std::vector<Bounds> bounds_;               // of each output
};

}  // namespace sinter::bench
