#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/assembler.h"
#include "src/standin/stand_in.h"

namespace sinter {

absl::StatusOr<LoadedPlanPtr> StandIns::Get(const PlanRequest& request, absl::string_view why,
                                            const BuildControl& control) {
  const std::string key = PlanKeyBytes(request, *core_);
  LoadedPlanPtr plan = plans_.Find(key);
  if (plan == nullptr) {
    SINTER_ASSIGN_OR_RETURN(plan, Make(request, why, control));
    plans_.Insert(key, plan);
  }
  core_->counters.stand_ins.fetch_add(1, std::memory_order_relaxed);
  if (control.Tells()) {
    EngineEvent event(EventKind::kFallback, "plan");
    event.plan = plan->plan.PlanDigest();
    event.reason = absl::StrCat("stand_in: ", why);
    control.Tell(std::move(event));
  }
  return plan;
}

absl::StatusOr<LoadedPlanPtr> StandIns::Make(const PlanRequest& request, absl::string_view why,
                                             const BuildControl& control) {
  FusionOptions options;
  options.keep_going = &control;
  options.batch_invariant = request.batch_invariant;
  options.allow_cooperative = false;
  options.stand_ins = true;
  const TraceSpan span(core_->trace.get(), "stand in");
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanOf(request, options, *core_));
  Plan& plan = planned.chosen;
  SINTER_RETURN_IF_ERROR(CheckWorkspace(plan));
  plan.note = absl::StrCat("stand-in: ", why);
  BuiltKernels built;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    LaunchRecipe recipe;
    absl::StatusOr<BuiltKernelPtr> kernel = Load(plan.kernels[i].spec, &recipe, control);
    if (!kernel.ok()) return Annotate(kernel.status(), absl::StrCat("kernel ", i));
    built.kernels.push_back(*std::move(kernel));
    built.recipes.push_back(std::move(recipe));
  }
  core_->log.Log(LogLevel::kInfo,
                 absl::StrCat("a plan of ", plan.kernels.size(), " stand-ins runs: ", why));
  return assembler_->MakeLoaded(request.form, std::move(plan), std::move(built));
}

absl::StatusOr<BuiltKernelPtr> StandIns::Load(const KernelSpec& spec, LaunchRecipe* recipe,
                                              const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(StandIn stand_in, StandInOf(spec));
  *recipe = std::move(stand_in.recipe);
  SINTER_RETURN_IF_ERROR(recipe->Check());
  const std::string name = StandInName(stand_in.index);
  SINTER_ASSIGN_OR_RETURN(const absl::string_view cubin, core_->ports.stand_ins(name));
  // The key holds what loading depends on: threads and shared memory.
  const std::string key = absl::StrCat("stand-in ", name, " ", recipe->block[0], " ",
                                       recipe->shared_bytes, " ", Sha256(cubin).Hex());
  if (BuiltKernelPtr live = kernels_.Find(key)) {
    core_->modules.Touch(key);
    SINTER_RETURN_IF_ERROR(live->loaded->CheckRecipe(*recipe));
    return live;
  }
  SINTER_RETURN_IF_ERROR(control.Check("loading a stand-in"));
  auto kernel = std::make_shared<BuiltKernel>();
  kernel->key = key;
  kernel->origin = kernel->toolchain = "stand-in";
  const TraceSpan span(core_->trace.get(), "load", kernel->origin);
  SINTER_ASSIGN_OR_RETURN(kernel->loaded, core_->ports.loader->Load(cubin, *recipe));
  core_->counters.kernels_loaded.fetch_add(1, std::memory_order_relaxed);
  const BuiltKernelPtr result = std::move(kernel);
  kernels_.Insert(key, result);
  core_->modules.Add(key, result, cubin.size());
  return result;
}

}  // namespace sinter
