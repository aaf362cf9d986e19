// What the column reductions of a stitched kernel take behind their units: parts left, blocks met,
// parts joined.
#ifndef SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_
#define SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_

#include "src/base/device_model.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// Of all phases together, in microseconds; 0 without column reductions.
double ColumnJoinsUs(const StitchSchedule& schedule, const StitchLoad& load,
                     const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_COLUMN_COST_H_
