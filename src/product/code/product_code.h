// ProductCode: what is compiled for a kernel of products. ProductBinding: where a plan's kernel
// finds its buffers, and how it is launched.
#ifndef SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_
#define SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_

#include <cstdint>
#include <vector>

#include "src/product/role.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"

namespace sinter {

// A matrix that a kernel reaches through a pointer, not through a tensor map. The source holds
// these values as literals.
struct RowLayout {
  int64_t stride = 0;    // elements between rows; 0 without such a matrix
  bool aligned = false;  // 16-byte groups of columns lie on 16 bytes, from a buffer that does
  bool operator==(const RowLayout& o) const { return stride == o.stride && aligned == o.aligned; }
};

// Generated source is a function of this alone.
struct ProductCode {
  ProductSequence sequence;  // without a row count: m is 0, rows_per_m is 1
  Schedule schedule;         // without a grid: grid is 0
  bool constant_weights = true;
  RowLayout out, residual;
  std::vector<RowLayout> aux;  // of each auxiliary result
};

// What the launch needs besides the code.
struct ProductBinding {
  std::vector<OperandBinding> operands;
  int64_t rows = 0;            // most rows of a launch
  int64_t rows_per_m = 1;      // rows of a launch = its m * rows_per_m, unless constant_rows
  bool constant_rows = false;  // every launch has `rows` rows, whatever its m
  int grid = 1;                // blocks
  uint64_t flags_offset = 0;   // of the ready flags in the workspace
};

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_
