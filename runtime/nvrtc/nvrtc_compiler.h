// The Compiler port on NVRTC.
#ifndef SINTER_RUNTIME_NVRTC_NVRTC_COMPILER_H_
#define SINTER_RUNTIME_NVRTC_NVRTC_COMPILER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/nvrtc/nvrtc_library.h"
#include "src/base/ports.h"

namespace sinter {

// Opens no library yet. `nvrtc_path` is Config::nvrtc_path.
std::unique_ptr<Compiler> MakeNvrtcCompiler(const std::string& nvrtc_path);

// The same with a way to open the library, for fakes. `open` runs under a lock, until it succeeds
// once.
using NvrtcOpener = std::function<absl::StatusOr<std::shared_ptr<const NvrtcLibrary>>()>;
std::unique_ptr<Compiler> MakeNvrtcCompiler(NvrtcOpener open);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_NVRTC_COMPILER_H_
