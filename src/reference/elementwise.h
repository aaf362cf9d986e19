// Elementwise ops, copies, gathers, scatters and iota over strided views.
#ifndef SINTER_SRC_REFERENCE_ELEMENTWISE_H_
#define SINTER_SRC_REFERENCE_ELEMENTWISE_H_

#include <vector>

#include "src/chain/op.h"
#include "src/reference/tensor.h"

namespace sinter::reference {

// unary, binary, compare, select or cast. Operands of rank 0 spread; `dtypes` are the operands';
// dims are the result's.
Tensor Elementwise(const Op& op, const std::vector<DType>& dtypes, std::vector<View> operands,
                   const std::vector<int64_t>& dims, int threads);

// `from` written into `to`, whose element i lies at the row-major index i times `strides`.
void CopyInto(const View& from, double* to, const std::vector<int64_t>& strides, int threads);

// The view's elements, contiguous in f64.
Tensor Materialise(const View& view, int threads);

// result[..., i, ...] = index[i] along `axis`, or i where `index` is null.
Tensor Iota(const std::vector<int64_t>& dims, int axis, const std::vector<int64_t>* index,
            int threads);

// Rows of x by ids (axis 0), or elements of its last axis. An id outside of it gives zeros.
Tensor Gather(const View& x, const View& ids, int axis, int threads);

// x with rows written where ids say, one after the other. An id outside of it writes nothing.
Tensor Scatter(const View& x, const View& ids, const View& rows, int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_ELEMENTWISE_H_
