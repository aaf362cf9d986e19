// ExplainFusion: what the kernels of a plan fuse, the bytes saved, and why there are not fewer
// kernels.
#ifndef SINTER_SRC_FUSION_EXPLAIN_EXPLAIN_FUSION_H_
#define SINTER_SRC_FUSION_EXPLAIN_EXPLAIN_FUSION_H_

#include "src/base/device_model.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {

// Depends on the plan and the model alone. Bytes saved are those that one kernel for each op
// (StitchGraph, uncontracted) would move in addition to the plan's own. To find why two
// neighbouring kernels are not one, joins them and calls SearchStitch, for at most kMostJoined
// different pairs. A plan without stitched kernels has an empty picture.
FusionPicture ExplainFusion(const Plan& plan, const DeviceModel& model);

constexpr int kMostJoined = 64;

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_EXPLAIN_EXPLAIN_FUSION_H_
