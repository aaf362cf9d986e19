// KernelIdentity: what makes two generated kernels the same kernel, whatever library version made
// them.
#ifndef SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_
#define SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_

#include "src/base/digest.h"
#include "src/codegen/codegen.h"

namespace sinter {

// SHA-256 of the source, the headers that it includes (directly or through another), the options,
// the arch and the launch recipe of `spec`, which `kernel` was generated from. A header that it
// does not include may change. The compiler is no part of it. What was measured has rows and a
// grid, so both stand in the comment at the head of the source, as in sources of the first tuning
// sets.
Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_
