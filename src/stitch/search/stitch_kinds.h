// Kinds of stitched kernels. Neighbours in a ranking differ in a knob of little effect; tuning
// wants to measure schedules that differ in kind.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_

#include <vector>

#include "src/stitch/search/stitch_search.h"

namespace sinter {

// Moves the best of each kind to the front: how units are shared, vectors, blocks an SM, what is
// kept, held and handed over, how columns are joined. Both parts keep their order.
void PutKindsFirst(std::vector<RankedStitch>* ranked);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_KINDS_H_
