// What the row program calls a chain's element-wise ops.
#ifndef SINTER_SRC_STITCH_ROWS_ROW_OPS_H_
#define SINTER_SRC_STITCH_ROWS_ROW_OPS_H_

#include "absl/types/optional.h"
#include "src/chain/op.h"
#include "src/device/stitch/row_format.cuh"

namespace sinter {

// Nothing for one that it has not.
absl::optional<RowOp> RowOpOf(UnaryKind kind);
RowOp RowOpOf(BinaryKind kind);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ROWS_ROW_OPS_H_
