// Checks the row order (src/plan/row_order.h) of batch-invariant kernels of products.
#ifndef SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_
#define SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_

#include "absl/status/status.h"
#include "src/product/schedule.h"

namespace sinter {

// OK when the kernel sums K in the order of batch-invariant plans: operands not swapped, all of K
// in one block, in order, in the fewest steps of 64. Else FAILED_PRECONDITION naming field, value
// and bound.
absl::Status CheckRowOrder(const ProductSequence& sequence, const Schedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_
