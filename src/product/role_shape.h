// RoleShape: the shape and element of the matrix or vector with a role.
#ifndef SINTER_SRC_PRODUCT_ROLE_SHAPE_H_
#define SINTER_SRC_PRODUCT_ROLE_SHAPE_H_

#include <cstdint>

#include "src/product/role.h"
#include "src/product/sequence.h"

namespace sinter {

struct RoleShape {
  int64_t rows = 0;        // in memory; 0: a vector of columns
  int64_t columns = 0;     // 0 for parts, whose size depends on the schedule
  bool of_launch = false;  // one row for each row of the launch; `rows` is the maximum
  DType element = DType::kBF16;
  int64_t rows_per_m = 1;     // of_launch: that many for each M
  int64_t column_stride = 1;  // elements between columns, for each M of a launch where `of_m`
  bool of_m = false;
  bool of_k = false;  // one row for each K of the launch, which is its M; `rows` is the maximum

  int64_t RowBytes() const { return columns * SizeOf(element); }
};

RoleShape ShapeOf(const ProductSequence& sequence, Role role);
// Elements between the rows of a scale; 0 where it is a vector of columns, or one number.
int64_t ScaleRowStride(const ProductSequence& sequence, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ROLE_SHAPE_H_
