// ExplainFusion: what the kernels of a plan fuse, what that saves, and why they are not fewer.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLAIN_FUSION_H_
#define SINTER_SRC_FUSION_STITCH_EXPLAIN_FUSION_H_

#include "src/base/device_model.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {

// A function of the plan and the model alone, wherever the plan comes from. Bytes saved are those
// that one kernel for each op would move beside the plan's own (StitchGraph, uncontracted). Why two
// neighbouring kernels are not one is found out anew: they are joined and given to SearchStitch,
// kMostJoined different pairs at most. A plan without stitch kernels has an empty picture.
FusionPicture ExplainFusion(const Plan& plan, const DeviceModel& model);

constexpr int kMostJoined = 64;

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLAIN_FUSION_H_
