// OrderCheck: whether a plan's rows are computed in the requested order.
#ifndef SINTER_SRC_FUSION_ORDER_CHECK_H_
#define SINTER_SRC_FUSION_ORDER_CHECK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"

namespace sinter {

// For one chain on one chip, which must outlive it, as must `keep_going`, which may be null. Not
// thread-safe.
class OrderCheck {
 public:
  OrderCheck(const Chain& chain, const DeviceModel& model, bool batch_invariant,
             const KeepGoing* keep_going)
      : chain_(chain), model_(model), batch_invariant_(batch_invariant), keep_going_(keep_going) {}

  // OK if all kernels are batch-invariant, or none is, as requested. In batch-invariant plans
  // products must have the order of CheckRowOrder, and a plan with other ops must have the RowOrder
  // of the plan for kRowOrderBucket. The chain is planned for that bucket once, at the first such
  // plan, as long as `keep_going` allows: its error else.
  absl::Status Check(const Plan& plan);

 private:
  absl::Status CheckKernel(const KernelSpec& spec) const;
  absl::StatusOr<std::string> Wanted();

  const Chain& chain_;
  const DeviceModel& model_;
  const bool batch_invariant_;
  const KeepGoing* const keep_going_;
  std::optional<std::string> wanted_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_ORDER_CHECK_H_
