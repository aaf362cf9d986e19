// CUDA C++ of one kernel of the stitch family, and the text around its phases and around a unit's
// passes.
#ifndef SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_
#define SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/stitch/program.h"
#include "src/stitch/spec.h"

namespace sinter {

constexpr char kStitchEntry[] = "sinter_stitch";
// The device library's headers that the source of a kernel of `body` includes.
std::vector<std::string> StitchHeaders(const Chain& body);

// Parameters: body inputs, body outputs, then with more than one phase the scratch and the
// barrier's counter, then m. FAILED_PRECONDITION when the schedule's vectors cannot express the
// body. Precondition: the code is not packed.
absl::StatusOr<std::string> StitchSource(const StitchCode& code);

// CUDA C++ of a packed kernel: a range of blocks for each part. Parts that differ only in pointers
// and sizes share one text; each range of blocks takes its own pointers and sizes.

// Parameters: the body's inputs, its outputs, m. Precondition: CheckParts.
// FAILED_PRECONDITION when a part's vectors cannot express it.
absl::StatusOr<std::string> PackedSource(const StitchCode& code);

// INVALID_ARGUMENT when operands are missing or misplaced, FAILED_PRECONDITION when the parts of a
// packed kernel do not go together. Precondition: the code's family is kStitch.
absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const StitchBinding& binding);

int64_t RowBytesOf(const TensorType& type, const std::vector<Stride>& strides);

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

// Rounds of a block's units; `counted`: numbered in variable `round`.
struct Rounds {
  bool counted = false;
  int64_t most = 0;           // rounds beyond it count as the last; 0: unbounded
  bool backward = false;      // from the last to the first, which finds in L2 what came last
  bool block_stages = false;  // all threads of the block load the inputs of a round together
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

#endif  // SINTER_SRC_STITCH_CODE_STITCH_SOURCE_H_
