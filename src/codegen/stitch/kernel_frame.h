// What stands around a kernel's phases and around a unit's passes.
#ifndef SINTER_SRC_CODEGEN_STITCH_KERNEL_FRAME_H_
#define SINTER_SRC_CODEGEN_STITCH_KERNEL_FRAME_H_

#include <string>

#include "src/plan/stitch/program.h"
#include "src/plan/stitch/spec.h"

namespace sinter {

// Body inputs, body outputs, with `phases` the scratch and the barrier's words, m.
std::string StitchParameters(const StitchSpec& spec, bool phases);
// Before the first phase: clusters meet, predecessors end, the threads of a unit find each other.
std::string StitchPrologue(const StitchSpec& spec, const StitchProgram& program);
// "for (.. base ..) {" with `u` and `live`, and with `rounds` the loop's turns as `round`; open.
std::string UnitLoopText(const StitchSpec& spec, const StitchPhase& phase, bool rounds);

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_STITCH_KERNEL_FRAME_H_
