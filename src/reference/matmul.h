// Blocked float64 matrix product over strided views of any storage.
#ifndef SINTER_SRC_REFERENCE_MATMUL_H_
#define SINTER_SRC_REFERENCE_MATMUL_H_

#include "src/reference/tensor.h"

namespace sinter::reference {

// a [batch..., m, k] and b [batch..., k, n], already transposed by their strides; batch dims equal
// or absent in one. Each element sums its products in ascending k, without fused multiply-add: the
// same bits on every x86-64 machine and for every thread count.
Tensor Matmul(const View& a, const View& b, int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_MATMUL_H_
