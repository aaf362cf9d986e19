// TunedChoice: uses what a tuning set says about one plan, if this library can still run it.
#ifndef SINTER_SRC_ENGINE_TUNED_CHOICE_H_
#define SINTER_SRC_ENGINE_TUNED_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"

namespace sinter {

TuningKey TuningKeyOf(const PlanRequest& request, const EngineCore& core);

// An entry for `plan`, measured on the engine's device: key, plan, kernels and device; the caller
// adds the figures. An error when a kernel cannot be generated.
absl::StatusOr<TuningEntry> MakeTuningEntry(const PlanRequest& request, const EngineCore& core,
                                            const Plan& plan);

// The plan of the entry's decisions, for the entry's request. FAILED_PRECONDITION with the reason
// unless its bytes have this format and are decisions about the chain.
absl::StatusOr<Plan> AssembleEntry(const TuningEntry& entry, const PlanRequest& request,
                                   const EngineCore& core);

// The same, and FAILED_PRECONDITION unless every kernel is still the one that was measured
// (KernelIdentity): figures say nothing about a changed kernel, which nobody measured or verified.
// Predictions are those of `planned` (for the same request) if it holds the same plan, else the
// entry's.
absl::StatusOr<Plan> PlanOfEntry(const TuningEntry& entry, const PlanRequest& request,
                                 const FusionResult& planned, const EngineCore& core);

struct TuningOutcome {
  bool taken = false;
  std::string words;  // what was done and why; "" without a set
};

// Puts the plan of `entry` first in `result`; the predicted choice becomes the first alternative.
// An entry that cannot be used is counted and logged, and `result` stays as it is. Deterministic.
TuningOutcome ApplyEntry(const TuningEntry& entry, const PlanRequest& request, EngineCore& core,
                         FusionResult* result);

// The same with the entry that the engine's tuning set has. Without a set or an entry `result`
// stays as it is.
TuningOutcome ApplyTuning(const PlanRequest& request, EngineCore& core, FusionResult* result);

// KernelIdentity: whether two generated kernels are the same kernel, even if different library
// versions made them.

// SHA-256 of what the compiler reads (the source and the headers it includes, in that order), the
// options, the arch, and the launch: rows, schedule with its grid, and recipe of `spec`, from which
// `kernel` was generated. The compiler itself is no part of it. Names of headers, comments,
// indentation, empty lines and headers that are not included may change.
Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNED_CHOICE_H_
