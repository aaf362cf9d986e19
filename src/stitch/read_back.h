// Results that the units of an earlier phase store and those of a later one read from memory,
// instead of computing them again from inputs that are more bytes.
#ifndef SINTER_SRC_STITCH_READ_BACK_H_
#define SINTER_SRC_STITCH_READ_BACK_H_

#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Sets `back` of the phases. A thread reads what it has stored itself: the loops have equally many
// elements, and between the result and what the later phase makes of it lie only ops that compute
// element by element.
void ReadBack(const Chain& body, StitchProgram& program);

// What `phase` reads back as `value`; null: nothing.
const StitchBack* BackOf(const StitchPhase& phase, ValueId value);
// Whether a phase behind number `phase` reads back what that one stores as `output`.
bool IsReadBack(const StitchProgram& program, size_t phase, int output);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_READ_BACK_H_
