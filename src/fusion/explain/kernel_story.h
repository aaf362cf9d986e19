// KernelStory: describes one kernel of a plan as a KernelFusion.
#ifndef SINTER_SRC_FUSION_EXPLAIN_KERNEL_STORY_H_
#define SINTER_SRC_FUSION_EXPLAIN_KERNEL_STORY_H_

#include "src/fusion/explain/plan_tensors.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {

// For any family: the tensors at the border. For a stitched kernel also its ops: each would be a
// kernel in the unfused plan. No ops when the body makes no StitchGraph or no program.
KernelFusion StoryOf(const Plan& plan, int kernel, const PlanTensors& tensors);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_EXPLAIN_KERNEL_STORY_H_
