// Assembly: the plan of a chain from decisions. Who searches, and who reads decisions from a
// record, a pack or a tuning set, gets plans from the same code.
#ifndef SINTER_SRC_FUSION_ASSEMBLY_H_
#define SINTER_SRC_FUSION_ASSEMBLY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/decisions.h"
#include "src/plan/kernel_code.h"

namespace sinter {

class ChainParts;
class OrderCheck;

// What is requested besides chain, bucket and chip.
struct AssemblyRequest {
  bool batch_invariant = false;
  bool allow_cooperative = true;
  // Asked every few milliseconds of work, and obeyed; null: never. Outlives the assembly.
  const KeepGoing* keep_going = nullptr;
};

struct AssembledPlan {
  Plan plan;
  std::vector<KernelCode> codes;  // CodesOf(plan)
};

// Assembles plans of one chain at one bucket on one chip; what plans share is found once. Chain and
// model must outlive it. Not thread-safe.
//
// Runs of products, vertices of the rest and bodies are found in the chain as planning finds them,
// so a plan computes the chain whatever its decisions are:
// - every op is computed by one kernel, behind the kernels that it needs;
// - a kernel of products has one product of a run, or two that may share a kernel; those of a run
//   follow one another;
// - a schedule is legal for its products or its body, on the chip (KernelFamily::Check).
class Assembly {
 public:
  Assembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
           const AssemblyRequest& request = {});
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  // FAILED_PRECONDITION that names the kernel, the value and the bound where `decisions` are none
  // of the chain, or not what was requested; RESOURCE_EXHAUSTED where its bodies would take more
  // work than planning may (StitchBudget); the error of request.keep_going when it refuses.
  absl::StatusOr<AssembledPlan> Assemble(const Decisions& decisions);

 private:
  class Maker;
  absl::StatusOr<ChainParts*> PartsOf(const Absorbed& absorbed, Pace* pace);
  absl::StatusOr<AssembledPlan> AssembleAt(const Decisions& decisions, Pace* pace);

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const AssemblyRequest request_;
  std::vector<std::unique_ptr<ChainParts>> parts_;  // by what products absorb
  const std::unique_ptr<OrderCheck> order_;
};

// Assembly::Assemble as a function. Chain and model must outlive it.
using PlanAssembly = std::function<absl::StatusOr<AssembledPlan>(const Decisions&)>;
PlanAssembly MakePlanAssembly(const Chain& chain, int64_t bucket, const DeviceModel& model,
                              const AssemblyRequest& request);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_ASSEMBLY_H_
