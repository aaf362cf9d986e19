// What the row program calls a chain's element-wise ops, and their functions as its kernels have
// them.
#ifndef SINTER_SRC_STANDIN_ROW_OPS_H_
#define SINTER_SRC_STANDIN_ROW_OPS_H_

#include <string>

#include "src/chain/op.h"
#include "src/device/stitch/row_format.cuh"

namespace sinter {

constexpr RowOp RowOpOf(UnaryKind kind) {
  return static_cast<RowOp>(kRowUnary + static_cast<int>(kind));
}
constexpr RowOp RowOpOf(BinaryKind kind) {
  return static_cast<RowOp>(kRowBinary + static_cast<int>(kind));
}
bool RowsHave(UnaryKind kind);

// The struct RowOps of stitch/row_program.cuh, of all ops that rows have.
std::string RowOpsSource();

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_ROW_OPS_H_
