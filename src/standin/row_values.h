// RowValues: a body as values of rows, for the kernels that come with the library. A domain of rows
// and columns is walked once; each value is a number for each element of it, or for each row.
#ifndef SINTER_SRC_STANDIN_ROW_VALUES_H_
#define SINTER_SRC_STANDIN_ROW_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/chain/op.h"
#include "src/device/stitch/row_format.cuh"
#include "src/standin/row_places.h"

namespace sinter {

struct RowValue {
  enum class Kind { kInput, kConstant, kOp, kReduce } kind = Kind::kOp;
  RowOp op = kRowLoad;
  int operands[3] = {-1, -1, -1};
  bool number = false;  // the same for all columns
  int input = -1;
  RowPlace place;  // of an input, in elements
  DType type = DType::kF32;
  float constant = 0;
};

// Where a value is stored.
struct RowResult {
  int value = -1, output = -1;
  RowPlace place;
  bool number = false;  // one element a row
  // In an input's buffer, whose elements are read only where they are stored: stored behind all
  // else.
  bool in_place = false;
};

struct RowValues {
  RowDomain domain;
  std::vector<RowValue> values;  // operands before their users
  std::vector<RowResult> results;
};

// FAILED_PRECONDITION naming the op that is not of rows.
absl::StatusOr<RowValues> ReadRows(const Chain& body);

// What the row program calls a chain's element-wise ops, and their functions as its kernels have
// them.

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

#endif  // SINTER_SRC_STANDIN_ROW_VALUES_H_
