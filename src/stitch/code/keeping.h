// Values that a unit's passes keep in registers for later passes.
#ifndef SINTER_SRC_STITCH_CODE_KEEPING_H_
#define SINTER_SRC_STITCH_CODE_KEEPING_H_

#include <vector>

#include "src/stitch/code/emitter.h"

namespace sinter {

// Values that several passes compute, that are read by something only one pass computes, and that
// are expensive to compute again from what is read or kept. Operands come before the values made
// from them.
std::vector<ElementKey> ValuesWorthKeeping(const Chain& body, const Used& used);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_KEEPING_H_
