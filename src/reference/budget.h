// ReferenceBudget: how much memory and time a run of the CPU executor may take, and what it takes,
// computed from the extents before anything is allocated.
#ifndef SINTER_SRC_REFERENCE_BUDGET_H_
#define SINTER_SRC_REFERENCE_BUDGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

struct ReferenceBudget {
  // Bytes of float64 values that are held at once. 0: half of the machine's memory, at most 32 GiB.
  double bytes = 0;
  // Multiply-adds; an element of any other op counts as 16. The default is minutes of 16 cores.
  double operations = 0x1p43;
};

namespace reference {

// OK where the outputs at M = m of `chain`, or `rows` >= 0 rows of them, can be computed within
// `budget`. `keeps_outputs`: they are held as float64 too. RESOURCE_EXHAUSTED with the op, what it
// takes, the bound and the remedy.
absl::Status CheckBudget(const Chain& chain, int64_t m, int64_t rows, bool keeps_outputs,
                         const ReferenceBudget& budget);

}  // namespace reference
}  // namespace sinter

#endif  // SINTER_SRC_REFERENCE_BUDGET_H_
