// A plan made again from the bytes of its decisions, as a record of it is read.
#ifndef SINTER_TESTS_UNIT_FUSION_ASSEMBLY_REASSEMBLED_H_
#define SINTER_TESTS_UNIT_FUSION_ASSEMBLY_REASSEMBLED_H_

#include <utility>

#include "absl/status/statusor.h"
#include "src/base/status.h"
#include "src/fusion/assembly.h"

namespace sinter::testing {

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

#endif  // SINTER_TESTS_UNIT_FUSION_ASSEMBLY_REASSEMBLED_H_
