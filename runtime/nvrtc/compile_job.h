// CompileJob: a compile on a thread of its own, so that who asked for it may leave.
#ifndef SINTER_RUNTIME_NVRTC_COMPILE_JOB_H_
#define SINTER_RUNTIME_NVRTC_COMPILE_JOB_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "src/base/compile_request.h"
#include "src/base/keep_going.h"

namespace sinter {

// Compiles, and looks at `unwanted` where it can end early. Owns all that it needs: it may outlive
// who asked for it.
using CompileWork =
    std::function<absl::StatusOr<CompiledKernel>(const std::atomic<bool>& unwanted)>;

// What `work` returns, or within some hundredths of a second what `keep_going` refuses with; then
// the work goes on without anybody, until it is done or ends early. A process has as many of such
// left-over compiles as processors at most: with so many, the next one waits, and asks meanwhile.
// RESOURCE_EXHAUSTED: no thread, no memory.
absl::StatusOr<CompiledKernel> RunCompileJob(CompileWork work, const KeepGoing& keep_going);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_COMPILE_JOB_H_
