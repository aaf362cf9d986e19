// StitchSpec: one kernel of the stitch family: the sub-DAG that it computes, its schedule, and its
// operands' places. StitchCode: what of it is compiled.
#ifndef SINTER_SRC_STITCH_SPEC_H_
#define SINTER_SRC_STITCH_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/launch_recipe.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

struct StitchSpec {
  Chain body;  // inputs: what the kernel reads; outputs: what it writes
  StitchSchedule schedule;
  std::vector<BufferPlace> operands;  // of the body's inputs, then of its outputs
  uint64_t scratch_offset = 0;        // of LayOutColumns, in the workspace
  std::vector<StitchPart> parts;      // packed: `schedule` is their common launch; else none

  SINTER_FIELDS(StitchSpec, body, schedule, operands, scratch_offset, parts);
  std::string ScheduleText() const;
  std::string ScheduleCanonical() const;  // with those of the parts
};

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
  std::vector<BufferPlace> operands;  // StitchSpec::operands
  int grid = 1;                       // blocks
  uint64_t flags_offset = 0;          // of the grid barrier, in the workspace
  uint64_t scratch_offset = 0;        // StitchSpec::scratch_offset
};

// Whether the source of the body depends on the grid of `schedule`. Precondition: not packed.
bool SourceHoldsGrid(const Chain& body, const StitchProgram& program,
                     const StitchSchedule& schedule);

// The errors are MakeStitchProgram's. Shares the body of `spec`.
absl::StatusOr<StitchCode> CodeOf(const std::shared_ptr<const StitchSpec>& spec);

// The resources that a stitched kernel's launch needs, and whether the chip has them.

struct StitchBudget;  // body_work.h

struct StitchLaunch {
  bool cooperative = false;    // blocks wait for one another: all must be resident
  uint64_t scratch_bytes = 0;  // workspace that only the kernel uses
};

// FAILED_PRECONDITION naming the field, its value and the bound: of the chip (shared memory,
// threads, clusters, resident blocks), or of code generation for this body. Every schedule of the
// search passes. RESOURCE_EXHAUSTED once `budget`, which may be null, is spent: it takes the visits
// of the code's program, or of each part's. `code` is the code of `spec`, whose operands need no
// places.
absl::StatusOr<StitchLaunch> CheckStitchLaunch(const StitchSpec& spec, const StitchCode& code,
                                               const DeviceModel& model,
                                               StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SPEC_H_
