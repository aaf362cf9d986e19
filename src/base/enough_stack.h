// OnEnoughStack: planning and code generation walk graphs by recursion, as deep as the largest
// kernel, on threads whose stacks the caller chose.
#ifndef SINTER_SRC_BASE_ENOUGH_STACK_H_
#define SINTER_SRC_BASE_ENOUGH_STACK_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace sinter {

constexpr size_t kEnoughStack = size_t{3} << 19;  // 1.5 MiB
constexpr size_t kOwnStack = size_t{8} << 20;

// Bytes of stack that the calling thread has left; all of them where nobody can tell.
size_t StackLeft();

// Runs `work` here if kEnoughStack bytes are left, else on a thread of kOwnStack bytes, for which
// the caller waits. What it throws is thrown. RESOURCE_EXHAUSTED if no thread can be made.
absl::Status OnEnoughStack(absl::FunctionRef<absl::Status()> work);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_ENOUGH_STACK_H_
