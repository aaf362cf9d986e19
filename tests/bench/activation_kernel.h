// ActivationKernel: the one kernel between the two products of the serving form.
#pragma once

#include "src/base/ports.h"
#include "src/product/sequence.h"
#include "tests/support/common.h"

namespace sinter::bench {

// Immutable.
class ActivationKernel {
 public:
  // out[m, n] = act(in[m, n]), or act(in[:, :n]) * in[:, n:] of in[m, 2n] for a gated product. n
  // must be a multiple of 8. Compiled at run time.
  static absl::StatusOr<std::shared_ptr<const ActivationKernel>> Make(Compiler* compiler,
                                                                      Loader* loader,
                                                                      const MatrixProduct& product,
                                                                      int64_t m, DevicePtr in,
                                                                      DevicePtr out);

  absl::Status Enqueue(StreamHandle stream) const {
    return kernel_->Launch(*bound_, stream, m_, 0, false);
  }

 private:
  ActivationKernel() = default;
  std::shared_ptr<LoadedKernel> kernel_;
  std::unique_ptr<BoundKernel> bound_;
  int64_t m_ = 0;
};

}  // namespace sinter::bench
