// StitchCode: what is compiled for a stitched kernel. StitchBinding: where a plan's kernel finds
// its buffers, and its grid.
#ifndef SINTER_SRC_STITCH_CODE_H_
#define SINTER_SRC_STITCH_CODE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/stitch/program.h"
#include "src/stitch/spec.h"

namespace sinter {

// Immutable once made; any thread may read it.
struct StitchCode {
  std::shared_ptr<const Chain> body;
  // Its grid is the minimum, except where the source depends on the grid: for the places of several
  // column parts, the number of held rounds, the blocks of a part.
  StitchSchedule schedule;
  std::vector<StitchPart> parts;  // packed: `schedule` is their common launch; else none
  std::shared_ptr<const StitchProgram> program;  // of the body and the schedule; null when packed

  // One line: "block 256 unit 32 vec 8 keep x4".
  std::string Text() const;
  std::string ScheduleBytes() const;  // with those of the parts
};

// What the launch needs besides the code.
struct StitchBinding {
  std::vector<StitchOperand> operands;  // StitchSpec::operands
  int grid = 1;                         // blocks
  uint64_t flags_offset = 0;            // of the grid barrier, in the workspace
  uint64_t scratch_offset = 0;          // StitchSpec::scratch_offset
};

// Whether the source of the body depends on the grid of `schedule`. Precondition: not packed.
bool SourceHoldsGrid(const Chain& body, const StitchProgram& program,
                     const StitchSchedule& schedule);

// The errors are MakeStitchProgram's. Shares the body of `spec`.
absl::StatusOr<StitchCode> CodeOf(const std::shared_ptr<const StitchSpec>& spec);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_H_
