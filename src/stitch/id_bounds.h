// IdBounds: what is known of the numbers that a gather takes as ids. Ids that are computed, as
// those of pixels beside a place between them, are often kept inside by a minimum and a maximum:
// then nobody has to ask whether they name a place.
#ifndef SINTER_SRC_STITCH_ID_BOUNDS_H_
#define SINTER_SRC_STITCH_ID_BOUNDS_H_

#include "src/chain/chain.h"

namespace sinter {

// Whether every id of `gather` names a place of its axis, whatever the inputs are. False where it
// is not known.
bool NamesAPlace(const Chain& body, const Op& gather);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ID_BOUNDS_H_
