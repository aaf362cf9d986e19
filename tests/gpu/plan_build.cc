#include "tests/gpu/plan_build.h"

#include "src/plan/attention_family.h"
#include "src/plan/grouped_family.h"
#include "src/plan/mma_family.h"
#include "src/product/search/space.h"
#include "src/reference/rows.h"
#include "tests/support/plan_of_products.h"
#include "tests/support/sequences.h"

namespace sinter::gpu_testing {
namespace {

absl::Status CheckResident(const LoadedKernel& kernel, const LaunchRecipe& recipe) {
  if (!recipe.cooperative) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const int clusters, kernel.MaxActiveClusters(recipe));
  if (static_cast<uint32_t>(clusters) * recipe.cluster[0] >= recipe.grid[0]) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(clusters, " clusters of ", recipe.cluster[0],
                                                    " are resident, grid is ", recipe.grid[0]));
}

absl::Status BuildKernel(const Ports& ports, const KernelSpec& spec, const BuildOptions& options,
                         LoadedPlan* plan) {
  SINTER_ASSIGN_OR_RETURN(GeneratedKernel generated, Generate(spec, ports.model, options.codegen));
  if (options.edit) options.edit(&generated.request);
  SINTER_ASSIGN_OR_RETURN(const CompiledKernel compiled,
                          ports.compiler->Compile(generated.request));
  auto kernel = std::make_shared<BuiltKernel>();
  kernel->log = compiled.log;
  SINTER_ASSIGN_OR_RETURN(kernel->loaded, ports.loader->Load(compiled.cubin, generated.recipe));
  SINTER_RETURN_IF_ERROR(CheckResident(*kernel->loaded, generated.recipe));
  plan->kernels.push_back(std::move(kernel));
  plan->recipes.push_back(std::move(generated.recipe));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedPlanPtr> BuildPlan(const Ports& ports, std::shared_ptr<const Chain> chain,
                                        const Plan& plan, const BuildOptions& options) {
  std::shared_ptr<LoadedPlan> loaded = NewLoadedPlan(IdentityForm(std::move(chain)), plan);
  for (const PlannedKernel& kernel : plan.kernels) {
    const absl::Status built = BuildKernel(ports, kernel.spec, options, loaded.get());
    if (!built.ok()) return Annotate(built, kernel.spec.family->TextsOf(kernel.spec).schedule);
  }
  return LoadedPlanPtr(std::move(loaded));
}

std::vector<absl::StatusOr<LoadedPlanPtr>> BuildPlans(const Ports& ports,
                                                      const std::shared_ptr<const Chain>& chain,
                                                      const std::vector<Plan>& plans,
                                                      const BuildOptions& options) {
  std::vector<absl::StatusOr<LoadedPlanPtr>> built(plans.size(), absl::UnknownError(""));
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  reference::ParallelFor(threads, static_cast<int64_t>(plans.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             const auto at = static_cast<size_t>(i);
                             built[at] = BuildPlan(ports, chain, plans[at], options);
                           }
                         });
  return built;
}

absl::StatusOr<Plan> FusedPlanOf(const Chain& chain, int64_t bucket, const Schedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(chain, bucket, true));
  RankedSchedule ranked{.schedule = schedule};
  return MakePlan(chain, matched, {{0, 2}}, {ranked});
}

namespace {

// Has all grouped products of the plan run `schedule`.
absl::Status Reschedule(const DeviceModel& model, const GroupedSchedule& schedule, Plan* plan) {
  for (PlannedKernel& kernel : plan->kernels) {
    if (kernel.spec.family != &GroupedFamily()) continue;
    auto own = std::make_shared<GroupedSpec>(GroupedKernels::Of(kernel.spec));
    own->code.schedule = schedule;
    SINTER_RETURN_IF_ERROR(CheckSchedule(own->code.problem, schedule, model));
    kernel.spec.body = MakeBody(std::move(*own));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> GroupedPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                   const GroupedSchedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(FusionResult result, PlanChain(chain, bucket, model, {}));
  std::vector<Plan> plans = {std::move(result.chosen)};
  std::move(result.alternatives.begin(), result.alternatives.end(), std::back_inserter(plans));
  absl::Status why;
  for (Plan& plan : plans) {
    const absl::Status taken = Reschedule(model, schedule, &plan);
    if (taken.ok()) return std::move(plan);
    if (why.ok()) why = taken;
  }
  return why;
}

absl::StatusOr<Plan> AttentionPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                     const AttentionSchedule& schedule) {
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanChain(chain, bucket, model, {}));
  Plan plan = std::move(planned.chosen);
  if (plan.kernels.size() != 1 || plan.kernels[0].spec.family != &AttentionFamily()) {
    return absl::InternalError(absl::StrCat("not one kernel of attention: ", plan.ToText()));
  }
  AttentionSpec own = AttentionKernels::Of(plan.kernels[0].spec);
  SINTER_RETURN_IF_ERROR(CheckSchedule(own.code.problem, schedule, model));
  own.code.schedule = schedule;
  plan.kernels[0].spec.body = MakeBody(std::move(own));
  return plan;
}

absl::StatusOr<Plan> MmaPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                               MmaSchedule schedule) {
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanChain(chain, bucket, model, {}));
  Plan plan = std::move(planned.chosen);
  if (plan.kernels.size() != 1 || plan.kernels[0].spec.family != &MmaFamily()) {
    return absl::InternalError(absl::StrCat("not one product by mma.sync: ", plan.ToText()));
  }
  MmaSpec own = MmaKernels::Of(plan.kernels[0].spec);
  schedule.grid = static_cast<int>(BlocksOf(own.code.problem, schedule));
  SINTER_RETURN_IF_ERROR(CheckSchedule(own.code.problem, schedule, model));
  own.code.schedule = schedule;
  plan.kernels[0].spec.body = MakeBody(std::move(own));
  return plan;
}

absl::StatusOr<Plan> UnfusedPlanOf(const Chain& chain, int64_t bucket, const Schedule& first,
                                   const Schedule& second) {
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(chain, bucket, true));
  RankedSchedule one, two;
  one.schedule = first;
  two.schedule = second;
  if (matched.size() == 1) return MakePlan(chain, matched, {{0, 1}}, {one});
  return MakePlan(chain, matched, {{0, 1}, {1, 1}}, {one, two});
}

std::vector<Schedule> LegalSchedules(const ProductSequence& problem, const DeviceModel& model,
                                     Dataflow dataflow) {
  std::vector<Schedule> legal;
  if (!CheckSequence(problem).ok() || RowOf(dataflow).products != problem.size()) return legal;
  RowOf(dataflow).enumerate(SpaceWalk(problem, model, [&](const Schedule& s) {
    if (CheckSchedule(problem, s, model).ok()) legal.push_back(s);
  }));
  return legal;
}

std::vector<Schedule> Spread(const std::vector<Schedule>& schedules, size_t count) {
  if (schedules.size() <= count) return schedules;
  std::vector<Schedule> picked;
  for (size_t i = 0; i < count; ++i) {
    picked.push_back(schedules[count == 1 ? 0 : i * (schedules.size() - 1) / (count - 1)]);
  }
  return picked;
}

std::vector<Plan> SpreadPlans(const Chain& chain, int64_t bucket, const DeviceModel& model,
                              Dataflow dataflow, size_t count) {
  const ProductSequence problem = MatchProducts(chain, bucket, true)->sequence;
  std::vector<Plan> plans;
  if (problem.size() == 1) {
    for (const Schedule& s : Spread(LegalSchedules(problem, model, dataflow), count)) {
      plans.push_back(UnfusedPlanOf(chain, bucket, s, s).value());
    }
    return plans;
  }
  if (dataflow != Dataflow::kProduct) {
    for (const Schedule& s : Spread(LegalSchedules(problem, model, dataflow), count)) {
      plans.push_back(FusedPlanOf(chain, bucket, s).value());
    }
    return plans;
  }
  const auto first = Spread(LegalSchedules(FirstOf(problem), model, dataflow), count);
  const auto second = Spread(LegalSchedules(SecondOf(problem), model, dataflow), count);
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    plans.push_back(UnfusedPlanOf(chain, bucket, first[i], second[i]).value());
  }
  return plans;
}

}  // namespace sinter::gpu_testing
