#include "src/stitch/spec.h"

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/stitch/columns.h"

namespace sinter {
namespace {

bool SamePlace(const ColumnPlace& a, const ColumnPlace& b) {
  return a.parts == b.parts && a.results == b.results && a.mean_results == b.mean_results;
}

StitchSchedule OfSmallestGrid(StitchSchedule schedule) {
  schedule.grid = schedule.LaunchCluster();
  return schedule;
}

}  // namespace

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

bool SourceHoldsGrid(const Chain& body, const StitchProgram& program,
                     const StitchSchedule& schedule) {
  if (schedule.hold_bytes > 0 && !program.units_symbolic) return true;
  const ColumnLayout own = LayOutColumns(body, program, schedule);
  const ColumnLayout least = LayOutColumns(body, program, OfSmallestGrid(schedule));
  for (size_t i = 0; i < own.places.size(); ++i) {
    if (!SamePlace(own.places[i], least.places[i])) return true;
  }
  return false;
}

std::string StitchCode::Text() const {
  const std::string launch = absl::StrCat("block ", schedule.block_threads, " ");
  const std::string blocks = absl::StrCat("x", schedule.blocks_per_sm);
  if (parts.empty()) return absl::StrCat(launch, schedule.WorkText(), " ", blocks);
  return absl::StrCat(launch, blocks, " ", PartsText(parts));
}

std::string StitchCode::ScheduleBytes() const {
  ByteWriter w;
  w.Bytes(schedule.Canonical());
  if (!parts.empty()) WriteParts(parts, w);
  return w.Take();
}

absl::StatusOr<StitchCode> CodeOf(const std::shared_ptr<const StitchSpec>& spec) {
  StitchCode code;
  code.body = std::shared_ptr<const Chain>(spec, &spec->body);
  code.schedule = spec->schedule;
  code.parts = spec->parts;
  if (!code.parts.empty()) return code;
  SINTER_RETURN_IF_ERROR(CheckStitchFields(code.schedule));
  SINTER_ASSIGN_OR_RETURN(StitchProgram program, MakeStitchProgram(spec->body, spec->schedule.owner,
                                                                   spec->schedule.handed));
  if (!SourceHoldsGrid(spec->body, program, spec->schedule)) {
    code.schedule = OfSmallestGrid(code.schedule);
  }
  code.program = std::make_shared<const StitchProgram>(std::move(program));
  return code;
}

}  // namespace sinter
