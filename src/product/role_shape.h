// RoleShape: the matrix or vector that a kernel of products finds at a role.
#ifndef SINTER_SRC_PRODUCT_ROLE_SHAPE_H_
#define SINTER_SRC_PRODUCT_ROLE_SHAPE_H_

#include <cstdint>

#include "src/product/role.h"
#include "src/product/sequence.h"

namespace sinter {

struct RoleShape {
  int64_t rows = 0;        // as it lies in memory; 0: a vector of columns
  int64_t columns = 0;     // 0 of parts, whose size is a schedule's
  bool of_launch = false;  // a row for each row of the launch; `rows` is then the most
  DType element = DType::kBF16;
  int64_t rows_per_m = 1;  // of_launch: that many for each M

  int64_t RowBytes() const { return columns * SizeOf(element); }
};

RoleShape ShapeOf(const ProductSequence& sequence, Role role);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_ROLE_SHAPE_H_
