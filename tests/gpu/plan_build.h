// Plans built by hand from schedules, past the engine: for sweeps, test builds and mutants.
#pragma once

#include "src/attention/attention.h"
#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/grouped/grouped.h"
#include "src/mma/mma.h"
#include "src/plan/kernel_code.h"
#include "src/product/search/search.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

struct BuildOptions {
  CodegenOptions codegen;
  std::function<void(CompileRequest*)> edit;  // of what the compiler sees; may be empty
};

// Generates, compiles and loads every kernel of `plan`, which is for `chain`. Errors of those
// steps; FAILED_PRECONDITION when a cooperative kernel's blocks are not all resident. Thread-safe.
absl::StatusOr<LoadedPlanPtr> BuildPlan(const Ports& ports, std::shared_ptr<const Chain> chain,
                                        const Plan& plan, const BuildOptions& options = {});

// Each plan built, on all cores: results in the order of `plans`.
std::vector<absl::StatusOr<LoadedPlanPtr>> BuildPlans(const Ports& ports,
                                                      const std::shared_ptr<const Chain>& chain,
                                                      const std::vector<Plan>& plans,
                                                      const BuildOptions& options = {});

// The plan of a chain with two products that runs `schedule`, or, with a
// schedule of the product dataflow for each product, the unfused plan.
absl::StatusOr<Plan> FusedPlanOf(const Chain& chain, int64_t bucket, const Schedule& schedule);
absl::StatusOr<Plan> UnfusedPlanOf(const Chain& chain, int64_t bucket, const Schedule& first,
                                   const Schedule& second);

// A plan of a chain, which must be a normal form, whose grouped products all run `schedule`: the
// chosen one, or the first other one that can, as where another kernel quantises.
// FAILED_PRECONDITION where one cannot.
absl::StatusOr<Plan> GroupedPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                   const GroupedSchedule& schedule);

// The plan of a chain, which must be a normal form, whose one kernel is attention with `schedule`.
// FAILED_PRECONDITION where the schedule is not legal.
absl::StatusOr<Plan> AttentionPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                     const AttentionSchedule& schedule);

// The plan of a chain, which must be a normal form, whose one kernel is a product by mma.sync with
// `schedule`, whose grid it sets. FAILED_PRECONDITION where the schedule is not legal.
absl::StatusOr<Plan> MmaPlanOf(const Chain& chain, int64_t bucket, const DeviceModel& model,
                               MmaSchedule schedule);

// Every legal schedule of the dataflow's space, in its order. Empty when there is none, as where
// it takes another number of products.
std::vector<Schedule> LegalSchedules(const ProductSequence& problem, const DeviceModel& model,
                                     Dataflow dataflow);
// At most `count` of them, evenly from first to last.
std::vector<Schedule> Spread(const std::vector<Schedule>& schedules, size_t count);
// Plans of a chain with one product or two that run them: of two, for the product dataflow the i-th
// of the first product with the i-th of the second. At most `count`.
std::vector<Plan> SpreadPlans(const Chain& chain, int64_t bucket, const DeviceModel& model,
                              Dataflow dataflow, size_t count);

}  // namespace sinter::gpu_testing
