// The text around a kernel's phases and around a unit's passes.
#ifndef SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_
#define SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/spec.h"

namespace sinter {

// Names in a kernel's text that differ between the parts of a packed kernel.
struct FrameNames {
  std::string block = "blockIdx.x", blocks = "gridDim.x";
  std::vector<int64_t>* sizes = nullptr;  // packed: the values of size0, size1, .. in the text

  bool KnowCounts() const { return sizes == nullptr; }
  // A number of units or elements in the text, a literal or a sizeN.
  std::string Count(int64_t count, bool times_m) const;
};

// Whether source counts units with 32 bits, whose divisions take a third of the instructions.
bool UnitsAreInts(const StitchProgram& program);

// Parameter types of the body's inputs, then of its outputs: "const float* __restrict__ ".
std::vector<std::string> PointerTypes(const Chain& body);
// Body inputs, body outputs, with `phases` the scratch and the words of the barrier, then m.
std::string StitchParameters(const StitchCode& code, bool phases);
// Before the first phase: arrival at the cluster barrier, waiting for predecessors, thread numbers
// in a unit.
std::string StitchPrologue(const StitchCode& code, const StitchProgram& program);
// Part of the prologue: the number of units and the thread's place in its unit.
std::string UnitsText(const StitchCode& code, const StitchProgram& program,
                      const FrameNames& names);

// Numbers the rounds of a block's units in variable `round`.
struct Rounds {
  bool counted = false;
  int64_t most = 0;       // rounds beyond it count as the last; 0: unbounded
  bool backward = false;  // from the last to the first, which finds in L2 what came last
};

// The reads of a batch of units, before any of them computes: compilers move no read across a
// branch.
struct BatchReads {
  std::string packs;  // declarations, for all units of the batch
  std::string names;  // references to those of unit `q`
  std::string reads;
  std::string takes;        // in their place, in rounds below `held_rounds`
  int64_t held_rounds = 0;  // whole batches
};

// The loop over a block's units around `inside`, with `u` and `live`. Without row reductions
// nothing waits inside a unit, so the reads of several units are in flight together (UnitsAtOnce).
std::string AroundUnits(const StitchCode& code, const StitchProgram& program,
                        const StitchPhase& phase, const Rounds& rounds, const BatchReads& batch,
                        const FrameNames& names, const std::string& inside);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_
