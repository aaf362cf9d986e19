// Hand-overs that no search chose: what is correct must be so for every value that may be handed
// over.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"
#include "src/stitch/schedule.h"

namespace sinter::testing {

// `schedule` with up to `most` values handed over: those that come first in a walk through the body
// from a place that `seed` tells, as far as they are legal together and fit into `shared_bytes` of
// a block. Without any where none is.
StitchSchedule WithForcedHands(const Chain& body, StitchSchedule schedule, uint64_t seed,
                               size_t most, int64_t shared_bytes);

}  // namespace sinter::testing
