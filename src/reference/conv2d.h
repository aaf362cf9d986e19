// Direct float64 convolution over strided views of any storage.
#ifndef SINTER_SRC_REFERENCE_CONV2D_H_
#define SINTER_SRC_REFERENCE_CONV2D_H_

#include "src/chain/conv2d.h"
#include "src/reference/tensor.h"

namespace sinter::reference {

// x [batch, height, width, channels] with the filter `w`, both as InferConv2d takes them. Each
// element sums its taps in order, and the channels of each in order, without fused multiply-add;
// taps outside the image are left out. The same bits for every thread count.
Tensor Convolve(const View& x, const View& w, const Conv2d& conv, int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_CONV2D_H_
