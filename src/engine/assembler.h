// PlanAssembler: makes a loaded plan of a plan record. It decides which of the record's variants
// runs on this device, and says why another one does not.
#ifndef SINTER_SRC_ENGINE_ASSEMBLER_H_
#define SINTER_SRC_ENGINE_ASSEMBLER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/kernel_builder.h"
#include "src/engine/keys.h"
#include "src/engine/loaded_plan.h"
#include "src/engine/plan_builder.h"
#include "src/engine/verify.h"

namespace sinter {

struct AssembleOptions {
  PrepareOptions::Choice choice = PrepareOptions::Choice::kBest;
  OnMiss on_miss = OnMiss::kBuild;
  bool verify = false;
};

// What LoadedPlan holds of the kernels, by position in the plan.
struct BuiltKernels {
  std::vector<BuiltKernelPtr> kernels;
  std::vector<LaunchRecipe> recipes;
};

// NO_LEGAL_PLAN: the plan needs more workspace than offsets in launch recipes reach.
absl::Status CheckWorkspace(const Plan& plan);

// Thread-safe.
//
// Variants are tried in the record's order. A kernel that does not compile is replaced, and the
// replacement is stored with the plan. If there is no replacement, or a variant does not load, the
// next variant is tried. If a variant is found wrong, now or earlier, the unfused plan runs
// instead. If a variant waits across blocks and the driver says that not all of them can be
// resident, the plan that was made without such waiting runs instead.
class PlanAssembler {
 public:
  // `core` and the builders outlive the assembler. Plans keep `core` alive.
  PlanAssembler(std::shared_ptr<EngineCore> core, PlanBuilder* plans, KernelBuilder* kernels)
      : core_(std::move(core)), plans_(plans), kernels_(kernels) {}

  // Errors of the two builders; FAILED_PRECONDITION when no variant is of the kind that
  // `options.choice` asks for.
  absl::StatusOr<LoadedPlanPtr> Assemble(const PlanRequest& request, const AssembleOptions& options,
                                         const BuildControl& control);

  // What Assemble would try first, by its record: nothing is generated, compiled or loaded.
  // Errors of planning and of the cache.
  absl::StatusOr<SearchedPlan> Search(const PlanRequest& request, const AssembleOptions& options,
                                      const BuildControl& control);

  // What the building of kernels is for: the request, and the sources.
  struct Building {
    const PlanRequest& request;
    OnMiss on_miss;
    const BuildControl& control;
    KernelSources& sources;
  };
  // Builds all kernels of a variant's plan at once, kernels of one key only once. Sources and keys
  // are made where they are missing. If the compiler refuses a kernel, only that kernel is replaced
  // (PlanningHooks::replace), as long as there is another. `variant` is then the plan that was
  // built, for `toolchain`, and says what was replaced. Returns the error of the first kernel that
  // could not be built.
  absl::StatusOr<BuiltKernels> BuildKernels(const Building& building, absl::string_view toolchain,
                                            PlanVariant* variant);

  // Whether the driver can keep all blocks of every cooperative kernel resident; `why` when not.
  bool Resident(const BuiltKernels& built, std::string* why) const;

  LoadedPlanPtr MakeLoaded(std::shared_ptr<const NormalForm> form, Plan plan,
                           BuiltKernels built) const;

  // Marks or quarantines the plan's kernels.
  void Record(const LoadedPlan& plan, const Verdict& verdict);

 private:
  struct Walk;
  struct Attempt;
  absl::StatusOr<std::vector<LaunchRecipe>> RecipesOf(const Plan& plan) const;
  absl::StatusOr<Attempt> TryKernels(const Building& building, const PlanVariant& variant);
  absl::StatusOr<BuiltKernels> Finish(Attempt attempt) const;
  absl::Status Replace(const Building& building, absl::string_view toolchain,
                       const std::vector<size_t>& positions,
                       const std::vector<KernelDecision>& refused, PlanVariant* variant) const;
  absl::Status TryVariants(Walk& walk);
  // The first plan of `found` that is of the choice and can run at all.
  absl::StatusOr<const Plan*> FirstOf(const PlanRequest& request, const AssembleOptions& options,
                                      const BuildControl& control, FoundPlan* found);
  absl::Status TryVariant(size_t at, Walk& walk);
  absl::Status VerifyVariant(const LoadedPlanPtr& candidate, Walk& walk);
  LoadedPlanPtr BuildUnfused(Walk& walk);
  absl::Status FallBack(Walk& walk);
  // The record with the plans of all its variants; null where one cannot be made.
  std::shared_ptr<const PlanRecord> WholeRecord(const Walk& walk) const;
  void ListPassedOver(Walk& walk) const;

  const std::shared_ptr<EngineCore> core_;
  PlanBuilder* const plans_;
  KernelBuilder* const kernels_;
};

// StandIns: a plan of kernels that come with the library, for a prepare that must not wait for a
// compiler or has none.

// Thread-safe. Nothing is stored: planning it again takes some milliseconds. Plans and kernels that
// are alive are shared.
class StandIns {
 public:
  // `assembler` outlives it.
  StandIns(std::shared_ptr<EngineCore> core, PlanAssembler* assembler)
      : core_(std::move(core)), assembler_(assembler) {}

  // `why`: what the caller would otherwise have waited for. Precondition: there are a loader and
  // stand-ins. kNoLegalPlan naming what stand-ins cannot take; errors of the loader.
  absl::StatusOr<LoadedPlanPtr> Get(const PlanRequest& request, absl::string_view why,
                                    const BuildControl& control);

 private:
  absl::StatusOr<LoadedPlanPtr> Make(const PlanRequest& request, absl::string_view why,
                                     const BuildControl& control);
  absl::StatusOr<BuiltKernelPtr> Load(const KernelSpec& spec, LaunchRecipe* recipe,
                                      const BuildControl& control);

  const std::shared_ptr<EngineCore> core_;
  PlanAssembler* const assembler_;
  WeakCache<LoadedPlan> plans_;
  WeakCache<BuiltKernel> kernels_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_ASSEMBLER_H_
