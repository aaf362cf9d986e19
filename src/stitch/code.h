// StitchCode: what is compiled of a stitched kernel. StitchBinding: what a kernel of a plan makes
// of it.
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
  // Its grid is the smallest, but where source holds what follows from it: where several parts of
  // columns lie, how many rounds are held, which blocks are a part's.
  StitchSchedule schedule;
  std::vector<StitchPart> parts;                 // packed: `schedule` is their launch; else none
  std::shared_ptr<const StitchProgram> program;  // of the body and the schedule; null when packed

  // One line: "block 256 unit 32 vec 8 keep x4".
  std::string Text() const;
  std::string ScheduleBytes() const;  // with the parts'
};

// What the launch needs beside the code.
struct StitchBinding {
  std::vector<StitchOperand> operands;  // StitchSpec::operands
  int grid = 1;                         // blocks
  uint64_t flags_offset = 0;            // of the grid barrier in the workspace
  uint64_t scratch_offset = 0;          // StitchSpec::scratch_offset
};

// Whether source of the body depends on the grid of `schedule`. The kernel is not packed.
bool SourceHoldsGrid(const Chain& body, const StitchProgram& program,
                     const StitchSchedule& schedule);

// Errors of MakeStitchProgram. Shares the body of `spec`.
absl::StatusOr<StitchCode> CodeOf(const std::shared_ptr<const StitchSpec>& spec);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_H_
