// The GPU under a device model whose kernels are PTX for chips without wgmma: the driver translates
// it for the GPU that there is.
#pragma once

#include "src/engine/engine.h"

namespace sinter::gpu_testing {

// Ports of GPU 0 with `model`, whose `arch` becomes `arch`: "compute_80" and so on. One that has no
// clusters loses the model's.
// FAILED_PRECONDITION if the GPU has fewer SMs or less shared memory than the model.
absl::StatusOr<Ports> PortsOfPtx(Config config, DeviceModel model, const std::string& arch);

}  // namespace sinter::gpu_testing
