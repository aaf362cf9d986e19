// Neighbours: vertices that may gain by sharing a kernel.
#ifndef SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_
#define SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_

#include <vector>

#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

// By vertex: its producers, its consumers, and for each tensor that it reads the four readers
// before it and after it; ascending. Opaque vertices are no neighbours.
std::vector<std::vector<int>> NeighboursOf(const StitchGraph& graph);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_
