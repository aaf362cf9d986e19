// GroupedRuns: the grouped products of a chain with the ops that their kernels take along.
#ifndef SINTER_SRC_FUSION_GROUPED_RUNS_H_
#define SINTER_SRC_FUSION_GROUPED_RUNS_H_

#include <map>
#include <string>
#include <vector>

#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"

namespace sinter {

// A run for each grouped product; in `refused` why no kernel takes it. Its kernel takes along,
// where nobody else reads what is between: the gate of a pair, a product with a number of each
// slot, the cast of the result; none of the values `claimed`.
std::vector<GraphRun> FindGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                      std::map<ValueId, std::string>* refused);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_GROUPED_RUNS_H_
