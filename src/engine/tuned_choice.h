// TunedChoice: what a tuning set says about one plan, if this library may still do it.
#ifndef SINTER_SRC_ENGINE_TUNED_CHOICE_H_
#define SINTER_SRC_ENGINE_TUNED_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/fusion.h"
#include "src/plan/codegen.h"

namespace sinter {

TuningKey TuningKeyOf(const PlanRequest& request, const EngineCore& core);

// An entry for `plan`, which was measured on the engine's device: its key, plan, kernels and
// device; the figures are left to the caller. An error when a kernel cannot be generated.
absl::StatusOr<TuningEntry> MakeTuningEntry(const PlanRequest& request, const EngineCore& core,
                                            const Plan& plan);

// The plan of the entry's decisions, for the request that the entry is of. FAILED_PRECONDITION with
// the reason unless its bytes are of this format and are decisions of the chain.
absl::StatusOr<Plan> AssembleEntry(const TuningEntry& entry, const PlanRequest& request,
                                   const EngineCore& core);

// The same, and FAILED_PRECONDITION unless every kernel is still the one that was measured
// (KernelIdentity). A kernel that changed was neither measured nor verified, so its figures say
// nothing. Predictions are those of `planned` (for the same request) where it holds the same plan,
// else the entry's.
absl::StatusOr<Plan> PlanOfEntry(const TuningEntry& entry, const PlanRequest& request,
                                 const FusionResult& planned, const EngineCore& core);

struct TuningOutcome {
  bool taken = false;
  std::string words;  // what was done, and why; "" without a set
};

// Puts the plan of `entry` in front of `result`; the predicted choice becomes the first
// alternative. An entry that cannot be used is counted and logged, and leaves `result` alone.
// Deterministic.
TuningOutcome ApplyEntry(const TuningEntry& entry, const PlanRequest& request, EngineCore& core,
                         FusionResult* result);

// The same for the plan that the engine's tuning set names. Without a set or an entry `result` is
// left alone.
TuningOutcome ApplyTuning(const PlanRequest& request, EngineCore& core, FusionResult* result);

// KernelIdentity: what makes two generated kernels the same kernel, whatever library version made
// them.

// SHA-256 of what the compiler reads of the source and of the headers that it includes, in its
// order, the options, the arch, and the launch: rows, schedule with its grid, and recipe of `spec`,
// which `kernel` was generated from. The compiler itself is no part of it. Names of headers,
// comments, indentation and empty lines may change, and so may a header that is not included.
Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNED_CHOICE_H_
