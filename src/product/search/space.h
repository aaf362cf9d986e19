// The shipping space: the schedules of a sequence that are worth costing. FlashFuser's knobs (cls_k
// and cls_reduce are split_k, blk_* are block_*), with ragged column ranges instead of power-of-two
// tiles.
#ifndef SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
#define SINTER_SRC_PRODUCT_SEARCH_SPACE_H_

#include <functional>

#include "src/product/schedule.h"
#include "src/product/search/search.h"

namespace sinter {

// Calls `visit` for every candidate, in a fixed order. A candidate has as many stages as shared
// memory allows; it may still be illegal (CheckSchedule decides). Precondition:
// CheckSequence(sequence) is OK.
void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
