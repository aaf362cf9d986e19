#include "src/stitch/spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"
#include "src/stitch/program.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

bool SamePlace(const ColumnPlace& a, const ColumnPlace& b) {
  return a.parts == b.parts && a.results == b.results && a.mean_results == b.mean_results;
}

StitchSchedule OfSmallestGrid(StitchSchedule schedule) {
  schedule.grid = schedule.cluster;
  return schedule;
}

constexpr int kNamedBarriers = 15;          // of a block, without its own
constexpr int kMostStitchBlocks = 1 << 19;  // of a launch

absl::Status RefuseField(const char* field, int64_t value, const char* bound, int64_t limit) {
  return FailedPrecondition(field, " ", value, " ", bound, " ", limit);
}

// Relations between fields that every schedule of the search obeys.
absl::Status CheckFieldsTogether(const StitchSchedule& s, bool cooperative) {
  if (s.unit_threads > kWarpLanes && s.block_threads / s.unit_threads > kNamedBarriers) {
    return RefuseField("groups of a block", s.block_threads / s.unit_threads, "are above",
                       kNamedBarriers);
  }
  if (s.owner < 0 && (s.cluster > 1 || s.unit_threads != s.block_threads)) {
    return FailedPrecondition("unit_threads ", s.unit_threads, ", cluster ", s.cluster,
                              " without units, must be ", s.block_threads, " and 1");
  }
  if (s.owner >= 0 && s.chunks != 1) return RefuseField("chunks", s.chunks, "with units is not", 1);
  if (s.owner < 0 && s.split > 1 && s.chunks != 1) {
    return RefuseField("chunks", s.chunks, "with a split is not", 1);
  }
  if ((s.keep_values || s.keep_alike) && !s.keep_inputs) {
    return FailedPrecondition("keep_values or keep_alike without keep_inputs");
  }
  if (cooperative) return absl::OkStatus();
  if (s.join_all || s.hold_bytes > 0) {
    return FailedPrecondition("join_all ", s.join_all, ", hold_bytes ", s.hold_bytes,
                              " in a kernel of one phase, must be 0, 0");
  }
  return absl::OkStatus();
}

// Checks the launch's blocks, whatever each computes.
absl::Status CheckStitchGrid(const StitchSchedule& s, int64_t shared, bool cooperative,
                             const DeviceModel& model) {
  if (s.grid > kMostStitchBlocks) return RefuseField("grid", s.grid, "is above", kMostStitchBlocks);
  if (shared > model.shared_bytes_per_block) {
    return RefuseField("shared memory", shared, "is above a block's", model.shared_bytes_per_block);
  }
  const int64_t threads = int64_t{s.block_threads} * s.blocks_per_sm;
  if (threads > model.threads_per_sm) {
    return RefuseField("threads of an SM", threads, "are above", model.threads_per_sm);
  }
  const int64_t resident = int64_t{model.ResidentBlocks(s.cluster)} * s.blocks_per_sm;
  if (resident < s.cluster) {
    return RefuseField("cluster", s.cluster, "is above the resident blocks", resident);
  }
  if (!cooperative) return absl::OkStatus();
  if (s.grid > resident) {
    return RefuseField("grid", s.grid, "is above the blocks resident at once", resident);
  }
  const int64_t sm_bytes = (shared + model.reserved_shared_bytes) * s.blocks_per_sm;
  if (sm_bytes > model.shared_bytes_per_sm) {
    return RefuseField("shared memory of an SM's blocks", sm_bytes, "is above",
                       model.shared_bytes_per_sm);
  }
  return absl::OkStatus();
}

struct ProgramLaunch {
  bool cooperative = false;
  uint64_t scratch_bytes = 0;
  int64_t shared_bytes = 0;
};

// Checks a body, or one part of a packed kernel.
absl::StatusOr<ProgramLaunch> CheckProgram(const Chain& body, const StitchProgram& program,
                                           const StitchSchedule& s) {
  SINTER_RETURN_IF_ERROR(CheckStitchFields(s));
  ProgramLaunch launch;
  launch.cooperative = program.phases.size() > 1;
  SINTER_RETURN_IF_ERROR(CheckFieldsTogether(s, launch.cooperative));
  const int widest = WidestVector(body);
  if (s.vector > widest) return RefuseField("vector", s.vector, "is above", widest);
  const bool steps = HasSteps(body);
  if (steps && s.cluster > 1)
    return RefuseField("cluster", s.cluster, "with steps of rows is not", 1);
  if (steps && s.unit_threads < kWarpLanes) {
    return RefuseField("unit_threads", s.unit_threads, "with steps of rows are below", kWarpLanes);
  }
  if (s.owner >= 0 && !SegmentsFit(body, program, s)) {
    return RefuseField("unit_threads", s.unit_threads, "cannot join segments by vectors of",
                       s.vector);
  }
  if (s.pixels > 1) SINTER_RETURN_IF_ERROR(CheckPixels(body, program.windows, s.pixels));
  launch.scratch_bytes = LayOutColumns(body, program, s).scratch_bytes;
  launch.shared_bytes = StitchSharedBytes(body, program, s);
  return launch;
}

// Checks that the parts fit one another and the launch.
absl::StatusOr<StitchLaunch> CheckPackedLaunch(const StitchSpec& spec, const DeviceModel& model,
                                               StitchBudget* budget) {
  int64_t shared = 0;
  const auto check = [&](const Chain& body, const StitchProgram& program,
                         const StitchSchedule& s) -> absl::Status {
    SINTER_ASSIGN_OR_RETURN(const ProgramLaunch launch, CheckProgram(body, program, s));
    shared = std::max(shared, launch.shared_bytes);
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(CheckParts(spec.body, spec.schedule, spec.parts, budget, check));
  SINTER_RETURN_IF_ERROR(CheckStitchGrid(spec.schedule, shared, false, model));
  return StitchLaunch{};
}

}  // namespace

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

absl::StatusOr<StitchLaunch> CheckStitchLaunch(const StitchSpec& spec, const StitchCode& code,
                                               const DeviceModel& model, StitchBudget* budget) {
  if (!spec.parts.empty()) return CheckPackedLaunch(spec, model, budget);
  if (budget != nullptr) SINTER_RETURN_IF_ERROR(budget->Take(code.program->visits));
  SINTER_ASSIGN_OR_RETURN(const ProgramLaunch launch,
                          CheckProgram(spec.body, *code.program, spec.schedule));
  SINTER_RETURN_IF_ERROR(
      CheckStitchGrid(spec.schedule, launch.shared_bytes, launch.cooperative, model));
  return StitchLaunch{launch.cooperative, launch.scratch_bytes};
}

}  // namespace sinter
