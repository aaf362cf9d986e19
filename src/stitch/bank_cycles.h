// Bank conflicts: cycles of shared memory for the accesses of a warp.
#ifndef SINTER_SRC_STITCH_BANK_CYCLES_H_
#define SINTER_SRC_STITCH_BANK_CYCLES_H_

#include <cstdint>

#include "src/stitch/index.h"

namespace sinter {

struct BankAccess {
  int64_t cycles = 0;    // of the warp
  int64_t accesses = 0;  // of each lane
};

// For a warp whose lanes take `width` neighbouring elements of loop `element` each; `at` counts
// elements of `bytes` in shared memory. All other loop variables are 0. A whole vector whose
// elements lie side by side is one access.
BankAccess BankCycles(IndexSpace& space, const Index& at, IndexVar element, int width,
                      int64_t bytes);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_BANK_CYCLES_H_
