// Dominators of a flow graph.
#ifndef SINTER_SRC_STITCH_DOMINANCE_H_
#define SINTER_SRC_STITCH_DOMINANCE_H_

#include <vector>

namespace sinter {

// Immediate dominators, after Cooper, Harvey and Kennedy. Node 0 is the entry and its own;
// successors[n] are the nodes that n leads to. -1: not to be reached.
std::vector<int> ImmediateDominators(const std::vector<std::vector<int>>& successors);

// Whether every way from the entry to `node` leads through `over`.
bool Dominates(const std::vector<int>& immediate, int over, int node);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_DOMINANCE_H_
