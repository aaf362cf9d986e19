// Replacement: other kernels for those of a plan that a compiler refused. The rest of the plan
// stays.
#ifndef SINTER_SRC_FUSION_REPLACEMENT_H_
#define SINTER_SRC_FUSION_REPLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/fusion/fusion.h"
#include "src/plan/decisions.h"

namespace sinter {

// So many schedules of the same ops are tried before the ops are split.
constexpr int kMostTriedOfAKernel = 4;

// `decisions` of `chain` with the kernels at `positions` (ascending) replaced, each alone, or with
// the others of a run of a family's own: by the next best schedule of its ops that is not among
// `refused`, which holds the decisions of all kernels that were refused so far, those at
// `positions` too. Where kMostTriedOfAKernel were
// refused, or none is left, two products get a kernel each, and a stitched kernel's ops are halved
// between those that no value connects, or in their order, down to single ops.
// FAILED_PRECONDITION naming the op of which no kernel is left. `options` are those that the plan
// was made with; options.keep_going is obeyed. Deterministic.
absl::StatusOr<Decisions> ReplaceKernels(const Chain& chain, const DeviceModel& model,
                                         const FusionOptions& options, Decisions decisions,
                                         const std::vector<size_t>& positions,
                                         const std::vector<KernelDecision>& refused);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_REPLACEMENT_H_
