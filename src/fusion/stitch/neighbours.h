// Neighbours: vertices that gain something by sharing a kernel.
#ifndef SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_
#define SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_

#include <vector>

#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

// Of every vertex: its producers, its consumers, and the four readers before and behind it of
// each tensor that it reads; ascending. Opaque vertices are no neighbours.
std::vector<std::vector<int>> NeighboursOf(const StitchGraph& graph);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_NEIGHBOURS_H_
