// In place: what a kernel's outputs that may share inputs' buffers ask of its program.
#ifndef SINTER_SRC_STITCH_IN_PLACE_H_
#define SINTER_SRC_STITCH_IN_PLACE_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// An output that shares an input's buffer may be stored when its element of the input is not read
// any more: in an earlier phase anyone may read anything; in its own phase, only the thread that
// stores an element may read it, and before. Moves such stores to the last pass that reads their
// input, and behind the roots of that pass that read it. FAILED_PRECONDITION naming the op whose
// store cannot wait.
absl::Status SettleInPlace(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_IN_PLACE_H_
