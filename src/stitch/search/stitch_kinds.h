// Kinds of stitched kernels. Neighbours in a ranking differ in a knob that hardly matters; whoever
// measures some of them wants those that compete in different ways.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_

#include <vector>

#include "src/stitch/search/stitch_search.h"

namespace sinter {

// Moves the best of each kind to the front: how units are shared out, vectors, how many blocks an
// SM has, what is kept, held and handed over, how columns are joined. Each part keeps its order.
void PutKindsFirst(std::vector<RankedStitch>* ranked);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_
