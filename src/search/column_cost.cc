#include "src/search/column_cost.h"

#include <algorithm>
#include <cmath>

namespace sinter {
namespace {

constexpr double kWordBytes = 4;
// Measured on an H200 by batchnorm's two exchanges with 15 to 132 parts of 200 and 256 columns.
constexpr double kPartsAtOnce = 8, kPartUs = 0.6;  // parts of a column that a warp reads at once
constexpr double kJoinUs = 0.25;                   // beside that and the grid's barriers
constexpr double kJoinAllUs = 1.5;                 // the same where each block joins for itself
constexpr double kBlockReadShare = 0.6;            // of an SM's intake, by a block's own loads
constexpr double kArriveUs = 0.01;  // of each block beyond one an SM, where the grid meets
constexpr double kPeersUs = 0.6;    // to read the parts of a cluster's peers

// The parts of a column are read by the warps of a block, some at once.
double SharedOutUs(const StitchSchedule& s, double parts) {
  return std::ceil(parts / (s.block_threads / 32.0) / kPartsAtOnce) * kPartUs;
}

}  // namespace

double ColumnJoinsUs(const StitchSchedule& s, const StitchLoad& load, const DeviceModel& model) {
  const double parts = static_cast<double>(s.grid) / s.LaunchCluster();
  const double bytes = load.column_words * kWordBytes * parts;  // of all parts, of all phases
  const double gather = s.column_cluster > 1 ? model.cluster_barrier_us + kPeersUs : 0;
  const double meet = model.grid_barrier_us + kArriveUs * std::max(0, s.grid - model.sm_count);
  if (s.join_all) {
    const double read = s.blocks_per_sm * bytes / (kBlockReadShare * model.sm_intake_bytes_per_us);
    return load.column_joins * (meet + kJoinAllUs + gather) + read;
  }
  const int meets = 2 * load.column_joins - (load.ends_in_columns ? 1 : 0);
  return meets * meet + load.column_joins * (kJoinUs + gather + SharedOutUs(s, parts)) +
         2 * bytes / model.l2_bytes_per_us;
}

}  // namespace sinter
