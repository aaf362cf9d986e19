// In place: what outputs that share an input's buffer require of a kernel's program.
#ifndef SINTER_SRC_STITCH_IN_PLACE_H_
#define SINTER_SRC_STITCH_IN_PLACE_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Whether an output is a scatter over the input whose buffer it may share: what it leaves is there
// already where it does.
bool WritesInPlace(const Chain& chain, const ChainOutput& output);
// The same of any output of `value`.
bool WritesInPlace(const Chain& chain, ValueId value);

// An output in an input's buffer may store an element once that element of the input is no longer
// read. Any thread may read it in an earlier phase; in the store's own phase only the storing
// thread may, before the store. Moves such stores to the last pass that reads their input, after
// the roots of that pass that read it. A scatter stores anywhere: nothing of its phase or a later
// one may read its input, but what it leaves. FAILED_PRECONDITION naming the op whose store cannot
// wait.
absl::Status SettleInPlace(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_IN_PLACE_H_
