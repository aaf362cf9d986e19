// ProductCode: what is compiled of a kernel of products. ProductBinding: what a kernel of a plan
// makes of it.
#ifndef SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_
#define SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_

#include <cstdint>
#include <vector>

#include "src/product/role.h"
#include "src/product/schedule.h"
#include "src/product/sequence.h"

namespace sinter {

// What source holds as literals of a matrix that a kernel reaches through a pointer, and not
// through a tensor map.
struct RowLayout {
  int64_t stride = 0;    // elements between rows; 0 without such a matrix
  bool aligned = false;  // 16-byte groups of columns lie on 16 bytes, from a buffer that does
  bool operator==(const RowLayout& o) const { return stride == o.stride && aligned == o.aligned; }
};

// Generated source is a function of this alone.
struct ProductCode {
  ProductSequence sequence;  // of any number of rows: its m is 0, its rows_per_m 1
  Schedule schedule;         // its grid is 0
  bool constant_weights = true;
  RowLayout out, residual;
};

// What the launch needs beside the code.
struct ProductBinding {
  std::vector<OperandBinding> operands;
  int64_t rows = 0;            // most rows of a launch
  int64_t rows_per_m = 1;      // of a launch, else
  bool constant_rows = false;  // a launch has that many, whatever its m is
  int grid = 1;                // blocks
  uint64_t flags_offset = 0;   // of ready flags in the workspace
};

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_PRODUCT_CODE_H_
