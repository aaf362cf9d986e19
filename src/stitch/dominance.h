// Dominators of a flow graph.
#ifndef SINTER_SRC_STITCH_DOMINANCE_H_
#define SINTER_SRC_STITCH_DOMINANCE_H_

#include <vector>

namespace sinter {

// Immediate dominators, after Cooper, Harvey and Kennedy. Node 0 is the entry and dominates itself;
// successors[n] are the nodes that n leads to. -1: unreachable.
std::vector<int> ImmediateDominators(const std::vector<std::vector<int>>& successors);

// Whether every path from the entry to `node` passes `over`.
bool Dominates(const std::vector<int>& immediate, int over, int node);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_DOMINANCE_H_
