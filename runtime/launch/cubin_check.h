// The last look at a cubin before the driver gets it.
#ifndef SINTER_RUNTIME_LAUNCH_CUBIN_CHECK_H_
#define SINTER_RUNTIME_LAUNCH_CUBIN_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// DATA_LOSS unless `cubin` is a 64-bit little-endian ELF file for the CUDA machine whose header
// tables and sections lie inside it. cuModuleLoadData takes no length, so a truncated image would
// be read past its end.
absl::Status CheckModuleImage(absl::string_view cubin);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_CUBIN_CHECK_H_
