// KernelIdentity: what makes two generated kernels the same kernel, whatever library version made
// them.
#ifndef SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_
#define SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_

#include "src/base/digest.h"
#include "src/plan/codegen.h"

namespace sinter {

// SHA-256 of what the compiler reads of the source and of the headers that it includes, in its
// order, the options, the arch, and the launch: rows, schedule with its grid, and recipe of `spec`,
// which `kernel` was generated from. The compiler itself is no part of it. Names of headers,
// comments, indentation and empty lines may change, and so may a header that is not included.
Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_IDENTITY_H_
