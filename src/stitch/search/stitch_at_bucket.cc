#include "src/stitch/search/stitch_at_bucket.h"

#include <algorithm>
#include <optional>

#include "src/base/ceil_div.h"
#include "src/base/status.h"
#include "src/stitch/program.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/search/stitch_extents.h"

namespace sinter {
namespace {

constexpr int64_t kMostBlocks = 1 << 19;

// Units (elements without units) that a block, or a cluster that shares a unit, takes in one turn.
int64_t ItemsPerTurn(const StitchSchedule& s) {
  if (s.owner >= 0) return s.UnitsPerBlock();
  return int64_t{s.block_threads} * s.vector * s.chunks / s.split;
}

}  // namespace

absl::StatusOr<RankedStitch> AtBucket(const Chain& body, const StitchSchedule& schedule,
                                      int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  if (program.phases.size() > 1) return absl::FailedPreconditionError("its blocks meet");
  const int64_t items = std::max<int64_t>(1, WorkItems(program, bucket));
  const int64_t wanted = CeilDiv(items, ItemsPerTurn(schedule)) * schedule.cluster;
  const int64_t resident =
      int64_t{model.ResidentBlocks(schedule.LaunchCluster())} * schedule.blocks_per_sm;
  std::optional<RankedStitch> best;
  for (const int64_t grid : {std::min(wanted, kMostBlocks), std::min(wanted, resident)}) {
    StitchSchedule s = schedule;
    s.grid = static_cast<int>(std::max<int64_t>(1, grid / s.cluster) * s.cluster);
    const StitchLoad load = LoadOf(body, program, s, bucket, model);
    const Prediction prediction = TimesOfStitch(body, program, s, load, bucket, model).alone;
    if (!best.has_value() || prediction.total_us < best->prediction.total_us) {
      best = RankedStitch{s, prediction, {}, 0};
    }
  }
  return *best;
}

}  // namespace sinter
