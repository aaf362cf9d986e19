// The cost of a stitched kernel's column reductions after their units: write parts, barrier, join
// parts.
#ifndef SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_
#define SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_

#include "src/base/device_model.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// All phases together, in microseconds; 0 without column reductions.
double ColumnJoinsUs(const StitchSchedule& schedule, const StitchLoad& load,
                     const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_
