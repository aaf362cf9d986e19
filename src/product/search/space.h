// The shipping space: which schedules of a sequence are worth costing. FlashFuser's knobs (cls_k
// and cls_reduce as split_k, blk_* as block_*), with ragged column ranges in place of power-of-two
// tiles.
#ifndef SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
#define SINTER_SRC_PRODUCT_SEARCH_SPACE_H_

#include <functional>

#include "src/product/schedule.h"
#include "src/product/search/search.h"

namespace sinter {

// Calls `visit` for every candidate, in a fixed order. A candidate's ring is as deep as shared
// memory allows; it may still be illegal (CheckSchedule decides). Precondition:
// CheckSequence(sequence) is OK.
void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
