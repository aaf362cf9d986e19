// What stands around a kernel's phases and around a unit's passes.
#ifndef SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_
#define SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/stitch/code.h"
#include "src/stitch/program.h"

namespace sinter {

// How a kernel's text names what each part of a packed one has of its own.
struct FrameNames {
  std::string block = "blockIdx.x", blocks = "gridDim.x";
  std::vector<int64_t>* sizes = nullptr;  // packed: what the text calls size0, size1, ..

  bool KnowCounts() const { return sizes == nullptr; }
  // A number of units or elements in the text.
  std::string Count(int64_t count, bool times_m) const;
};

// Of the body's inputs, then its outputs: "const float* __restrict__ ".
std::vector<std::string> PointerTypes(const Chain& body);
// Body inputs, body outputs, with `phases` the scratch and the barrier's words, m.
std::string StitchParameters(const StitchCode& code, bool phases);
// Before the first phase: clusters meet, predecessors end, the threads of a unit find each other.
std::string StitchPrologue(const StitchCode& code, const StitchProgram& program);
// Of it, how many units there are and who shares one.
std::string UnitsText(const StitchCode& code, const StitchProgram& program,
                      const FrameNames& names);

// Rounds of a block's units, as `round`.
struct Rounds {
  bool counted = false;
  int64_t most = 0;  // those beyond are counted as the last; 0: any number
};

// What a batch of units reads before any of them computes: a compiler moves no read over a branch.
struct BatchReads {
  std::string packs;  // declarations, for all units of a batch
  std::string names;  // references to those of unit `q`
  std::string reads;
};

// The loop over a block's units, with `u` and `live`, around `inside`. Without row reductions
// nothing waits inside a unit, so the reads of several are under way together (UnitsAtOnce).
std::string AroundUnits(const StitchCode& code, const StitchProgram& program,
                        const StitchPhase& phase, const Rounds& rounds, const BatchReads& batch,
                        const FrameNames& names, const std::string& inside);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_KERNEL_FRAME_H_
