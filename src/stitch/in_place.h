// In place: what outputs that share an input's buffer require of a kernel's program.
#ifndef SINTER_SRC_STITCH_IN_PLACE_H_
#define SINTER_SRC_STITCH_IN_PLACE_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// An output in an input's buffer may store an element once that element of the input is no longer
// read. Any thread may read it in an earlier phase; in the store's own phase only the storing
// thread may, before the store. Moves such stores to the last pass that reads their input, after
// the roots of that pass that read it. FAILED_PRECONDITION naming the op whose store cannot wait.
absl::Status SettleInPlace(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_IN_PLACE_H_
