// StitchSpec: one kernel of the stitch family: the sub-DAG that it computes, its schedule, and its
// operands' places.
#ifndef SINTER_SRC_STITCH_SPEC_H_
#define SINTER_SRC_STITCH_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/stitch/packing.h"
#include "src/stitch/schedule.h"

namespace sinter {

// A plan's buffer (inputs then outputs in canonical order, kWorkspaceBuffer) and an offset in it.
struct StitchOperand {
  int buffer = 0;
  uint64_t offset_bytes = 0;
  bool operator==(const StitchOperand& o) const {
    return buffer == o.buffer && offset_bytes == o.offset_bytes;
  }
};

struct StitchSpec {
  Chain body;  // inputs: what the kernel reads; outputs: what it writes
  StitchSchedule schedule;
  std::vector<StitchOperand> operands;  // of the body's inputs, then of its outputs
  uint64_t scratch_offset = 0;          // of StitchScratchBytes, in the workspace
  std::vector<StitchPart> parts;        // packed: `schedule` is their common launch; else none

  bool operator==(const StitchSpec& o) const;
  std::string ScheduleText() const;
  std::string ScheduleCanonical() const;  // with those of the parts
};

// Bytes of the workspace that a kernel without parts uses between grid barriers, for partial and
// whole column reductions; 0 without column reductions. FAILED_PRECONDITION when the body cannot be
// computed with the schedule's owner.
absl::StatusOr<uint64_t> StitchScratchBytes(const Chain& body, const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SPEC_H_
