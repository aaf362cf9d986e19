// What a stitched kernel fuses.
#ifndef SINTER_SRC_EXPLAIN_STITCHED_H_
#define SINTER_SRC_EXPLAIN_STITCHED_H_

#include "src/explain/explain.h"

namespace sinter {

// Adds the kernel's ops, each of which would be a kernel of its own, to a story that has the
// tensors at its border. None when the body makes no StitchGraph or no program.
void AddOps(const StitchSpec& spec, int64_t bucket, ExplainedKernel* story);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_STITCHED_H_
