// RowValues: a body as values of rows, for the kernels that come with the library. A domain of rows
// and columns is walked once; each value is a number for each element of it, or for each row.
#ifndef SINTER_SRC_STITCH_ROWS_ROW_VALUES_H_
#define SINTER_SRC_STITCH_ROWS_ROW_VALUES_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/device/stitch/row_format.cuh"

namespace sinter {

constexpr int kRowDims = 5;  // of a domain: rows, then columns

// A place that moves with the domain's dims.
struct RowPlace {
  int64_t base = 0;
  std::array<int64_t, kRowDims> steps{};
  bool operator<(const RowPlace& o) const {
    return base != o.base ? base < o.base : steps < o.steps;
  }
  bool operator==(const RowPlace& o) const { return base == o.base && steps == o.steps; }
};

struct RowDomain {
  std::vector<int64_t> dims;  // the last are the columns; the first is 1 where it is M
  bool of_m = false;          // whether the first is M
  int64_t columns() const { return dims.back(); }
  size_t last() const { return dims.size() - 1; }
};

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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ROWS_ROW_VALUES_H_
