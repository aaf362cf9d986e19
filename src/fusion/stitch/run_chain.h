// The chain of a run of products alone.
#ifndef SINTER_SRC_FUSION_STITCH_RUN_CHAIN_H_
#define SINTER_SRC_FUSION_STITCH_RUN_CHAIN_H_

#include <set>

#include "absl/status/statusor.h"
#include "src/fusion/stitch/product_runs.h"

namespace sinter {

// `chain` and `inputs` of the run that computes `end` from the rows `a` by `members`, and by views
// and constants that lead to them: everything else is an input. What is computed has the strides
// that it has in memory; the result and computed rows are stored as `dtype`.
absl::StatusOr<GraphRun> ChainOfRun(const Chain& chain, const std::set<ValueId>& members, ValueId a,
                                    DType dtype, ValueId end);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_RUN_CHAIN_H_
