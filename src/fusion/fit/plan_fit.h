// PlanFit: whether a plan that was made in another process may run for a chain.
#ifndef SINTER_SRC_FUSION_FIT_PLAN_FIT_H_
#define SINTER_SRC_FUSION_FIT_PLAN_FIT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/plan/kernel_code.h"

namespace sinter {

class ChainMeaning;
class OrderCheck;

// What is requested besides chain, bucket and chip.
struct FitRequest {
  bool batch_invariant = false;
  bool allow_cooperative = true;
};

// Checks plans of one chain at one bucket on one chip. Chain and model must outlive it. Not
// thread-safe.
class PlanFit {
 public:
  PlanFit(const Chain& chain, int64_t bucket, const DeviceModel& model,
          const FitRequest& request = {});
  ~PlanFit();
  PlanFit(const PlanFit&) = delete;
  PlanFit& operator=(const PlanFit&) = delete;

  // OK, or FAILED_PRECONDITION that names the kernel, the operand, the value and the bound. A plan
  // that is OK computes the chain and touches only the chain's buffers and its workspace, for any
  // rows of a launch: README.md beside this file lists the rules and their tests. Precondition:
  // `plan` comes from Plan::Decode or from planning, and `codes` are CodesOf it.
  absl::Status Check(const Plan& plan, const std::vector<KernelCode>& codes) const;
  absl::Status Check(const Plan& plan) const;  // makes the codes

 private:
  absl::Status CheckHead(const Plan& plan) const;

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const FitRequest request_;
  const std::unique_ptr<ChainMeaning> meaning_;
  const std::unique_ptr<OrderCheck> order_;
};

// PlanFit::Check as a function.
using PlanJudge = std::function<absl::Status(const Plan&, const std::vector<KernelCode>& codes)>;
PlanJudge MakePlanJudge(const Chain& chain, int64_t bucket, const DeviceModel& model,
                        const FitRequest& request);

// PlanFit::Check for one plan, whose codes it makes.
absl::Status CheckPlanFits(const Plan& plan, const Chain& chain, int64_t bucket,
                           const DeviceModel& model, const FitRequest& request = {});

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_PLAN_FIT_H_
