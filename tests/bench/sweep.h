// Sweep: the top of the search's rankings, each schedule compiled and timed, so that the cost model
// can be compared with the chip.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/cases.h"
#include "tests/bench/results.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {

struct SweepOptions {
  int top = 11;     // of each ranking
  int threads = 1;  // that compile
  int replays = 7;
  bool fused = true, unfused = true;
  Dataflow dataflow = Dataflow::kNone;  // of fused ones; kNone: the search's space
  bool product_kinds = false;  // of single products the first `top` of each kind: operands as they
                               // are or swapped, what pairs of blocks share
};

// The ranking of kernels of two products (kind "chain") and those of both products ("first",
// "second"; of a part it is "first"), cold, plain edges. Each row is checked with the whole chain
// that it is part of.
absl::StatusOr<std::vector<SweepRow>> SweepCase(const Ports& ports, const Case& c,
                                                const SweepOptions& options,
                                                gpu_testing::Watchdog* watchdog);

// Spearman's rank correlation of predicted and measured times for each id, layout and kind, their
// mean, and the one over all rows.
std::string CorrelationText(const std::vector<SweepRow>& rows);

}  // namespace sinter::bench
