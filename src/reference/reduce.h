// Reductions over strided views.
#ifndef SINTER_SRC_REFERENCE_REDUCE_H_
#define SINTER_SRC_REFERENCE_REDUCE_H_

#include <vector>

#include "src/chain/op.h"
#include "src/reference/tensor.h"

namespace sinter::reference {

// Each result takes its elements in row-major order, one after the other; s32 sums wrap. An empty
// sum is 0, an empty maximum the least value of the dtype, an empty mean NaN. The result has `dims`
// (op.type's).
Tensor Reduce(const Op& op, DType dtype, const View& in, const std::vector<int64_t>& dims,
              int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_REDUCE_H_
