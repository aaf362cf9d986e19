// Plans of a result, and a plan made again from the bytes of its decisions, as a record of it is
// read.
#pragma once

#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "tests/support/common.h"

namespace sinter::testing {

// The chosen plan first.
inline std::vector<Plan> AllPlans(const FusionResult& result) {
  std::vector<Plan> plans = {result.chosen};
  plans.insert(plans.end(), result.alternatives.begin(), result.alternatives.end());
  return plans;
}

inline absl::StatusOr<Plan> Reassembled(const Plan& plan, Assembly* assembly) {
  SINTER_ASSIGN_OR_RETURN(const Decisions decisions,
                          DecodeDecisions(EncodeDecisions(DecisionsOf(plan))));
  SINTER_ASSIGN_OR_RETURN(AssembledPlan assembled, assembly->Assemble(decisions));
  return std::move(assembled.plan);
}

inline absl::StatusOr<Plan> Reassembled(const Plan& plan, const Chain& chain,
                                        const DeviceModel& model = *BuiltinModel("h200"),
                                        const AssemblyRequest& request = {}) {
  Assembly assembly(chain, plan.bucket, model, request);
  return Reassembled(plan, &assembly);
}

}  // namespace sinter::testing
