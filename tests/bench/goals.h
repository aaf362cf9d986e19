// Goals: the figures that rows are measured for, and their targets.
#pragma once

#include "tests/bench/markdown.h"

namespace sinter::bench {

// cuBLASLt's serving form / chosen that the batch sweep must reach at `m` rows.
double RequiredBatchRatio(int64_t m);

// The rows of problems/batch_sweep.txt, one line each: serving / chosen, and the required ratio.
// Empty when there is no such row.
std::string BatchText(const std::vector<Row>& rows);

// min(unfused, cuBLASLt) / chosen of a row, above 1 where chosen is faster; absent without times.
std::optional<double> SpeedOf(const Row& row);

// The distribution of SpeedOf, sorted, the 5th percentile and the worst, next to 0.97 and 0.90.
std::string NeverSlowerText(const std::vector<Row>& rows);

// For graphs: limit / chosen and unfused / chosen, geometric means and worst, launches, and graphs
// slower than 0.97 of their unfused plan. Empty when there is none.
std::string GraphsText(const std::vector<GraphRow>& rows);

// Batch-invariant / chosen. Empty when nothing was measured.
std::string BatchInvariantText(const std::vector<Row>& rows);

}  // namespace sinter::bench
