// Float64 product of two matrices with scales.
#ifndef SINTER_SRC_REFERENCE_SCALED_MATMUL_H_
#define SINTER_SRC_REFERENCE_SCALED_MATMUL_H_

#include "src/reference/tensor.h"

namespace sinter::reference {

// a [m, k] and w [n, k] with scales as src/chain/scaled_matmul.h has them. The products of each 128
// of k (of all of k where no scale has groups) are summed in order, multiplied by both scales, and
// added in order, without fused multiply-add: the same bits for every thread count.
Tensor ScaledMatmul(const View& a, const View& w, const View& scale_a, const View& scale_w,
                    int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_SCALED_MATMUL_H_
