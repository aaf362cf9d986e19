// Chains that are split over ranks.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter::testing {

// Depends only on its argument: two to four ranks, values of one to four axes with M on any of them
// or nowhere; sums, gathers and scatters along any axis, with residuals, casts, reshapes and GEMMs
// between them. Inputs come from RandomInputs.
Chain MakeSplitChain(uint64_t seed);

}  // namespace sinter::testing
