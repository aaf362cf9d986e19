// What one kernel of a plan fuses.
#ifndef SINTER_SRC_EXPLAIN_STITCHED_H_
#define SINTER_SRC_EXPLAIN_STITCHED_H_

#include "src/explain/explanation.h"
#include "src/explain/tensors.h"

namespace sinter {

// For any family: the tensors at the border. For a stitched kernel also its ops: each would be a
// kernel of its own. No ops when the body makes no StitchGraph or no program.
void AddFusion(const Plan& plan, int kernel, const PlanTensors& tensors, ExplainedKernel* story);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_STITCHED_H_
