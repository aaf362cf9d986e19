#include "src/stitch/search/column_cost.h"

#include <algorithm>
#include <cmath>

#include "src/stitch/search/stitch_extents.h"

namespace sinter {
namespace {

// parts of a column that a warp reads before it joins them, as in src/device/stitch/columns.cuh
constexpr int kPartsAtOnce = 8;

// The warps of a block read the parts of a column, several at once.
double SharedOutUs(const StitchSchedule& s, double parts, const StitchConstants& costs) {
  const double warps = s.block_threads / double{kWarpLanes};
  return std::ceil(parts / warps / kPartsAtOnce) * costs.column_part_us;
}

}  // namespace

double ColumnJoinsUs(const StitchSchedule& s, const StitchLoad& load, const DeviceModel& model) {
  const StitchConstants& costs = model.stitch;
  const double parts = static_cast<double>(s.grid) / s.LaunchCluster();
  const double bytes = load.column_words * kWordBytes * parts;  // all parts of all phases
  const double gather = s.column_cluster > 1 ? model.cluster_barrier_us + costs.column_peers_us : 0;
  const double meet =
      model.grid_barrier_us + costs.column_arrive_us * std::max(0, s.grid - model.sm_count);
  if (s.join_all) {
    const double read =
        s.blocks_per_sm * bytes / (costs.column_read_share * model.sm_intake_bytes_per_us);
    return load.column_joins * (meet + costs.column_join_all_us + gather) + read;
  }
  const int meets = 2 * load.column_joins - (load.ends_in_columns ? 1 : 0);
  const double join = costs.column_join_us + gather + SharedOutUs(s, parts, costs);
  return meets * meet + load.column_joins * join + 2 * bytes / model.l2_bytes_per_us;
}

}  // namespace sinter
