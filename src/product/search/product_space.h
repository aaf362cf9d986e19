// The space of one product: tiles with operands as they are, by what pairs of blocks share, and
// with operands swapped.
#ifndef SINTER_SRC_PRODUCT_SEARCH_PRODUCT_SPACE_H_
#define SINTER_SRC_PRODUCT_SEARCH_PRODUCT_SPACE_H_

#include <functional>

#include "src/base/device_model.h"
#include "src/product/schedule.h"

namespace sinter {

// The part of EnumerateSpace (space.h) for sequence.size() == 1.
void EnumerateProductSpace(const ProductSequence& sequence, const DeviceModel& model,
                           const std::function<void(const Schedule&)>& visit);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_PRODUCT_SPACE_H_
