#include "src/stitch/spec.h"

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/stitch/columns.h"

namespace sinter {

bool StitchSpec::operator==(const StitchSpec& o) const {
  return body == o.body && schedule == o.schedule && operands == o.operands &&
         scratch_offset == o.scratch_offset && parts == o.parts;
}

std::string StitchSpec::ScheduleText() const {
  if (parts.empty()) return schedule.ToString();
  return absl::StrCat("block ", schedule.block_threads, " x", schedule.blocks_per_sm, " grid ",
                      schedule.grid, " ", PartsText(parts));
}

std::string StitchSpec::ScheduleCanonical() const {
  if (parts.empty()) return schedule.Canonical();
  ByteWriter w;
  w.Bytes(schedule.Canonical());
  WriteParts(parts, w);
  return w.Take();
}

absl::StatusOr<uint64_t> StitchScratchBytes(const Chain& body, const StitchSchedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  return LayOutColumns(body, program, schedule).scratch_bytes;
}

}  // namespace sinter
