// What each dataflow asks of a schedule beyond its tiles: cluster, ranges of N, slab, spatial gate,
// grid, flags.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_CHECK_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_CHECK_H_

#include "absl/status/status.h"
#include "src/product/schedule.h"

namespace sinter {

// Blocks that greet each other in the header of the flags: kMaxGrid of the device library.
constexpr int kMostFlaggedBlocks = 240;

// A part of CheckScheduleFields. Precondition: all else of it is OK.
absl::Status CheckDataflow(const ProductSequence& sequence, const Schedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_CHECK_H_
