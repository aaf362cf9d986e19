// The row order (src/plan/row_order.h) of batch-invariant kernels of products.
#ifndef SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_
#define SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_

#include "absl/status/status.h"
#include "src/product/schedule.h"

namespace sinter {

// OK where a kernel of products has the one order that batch-invariant plans have: operands not
// swapped, all of K by one block, in order, in the fewest steps of 64. Else FAILED_PRECONDITION
// that names the field, the value and the bound.
absl::Status CheckRowOrder(const ProductSequence& sequence, const Schedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ROW_ORDER_CHECK_H_
