// OrderCheck: whether a plan's rows have the order that was asked for.
#ifndef SINTER_SRC_FUSION_FIT_ORDER_CHECK_H_
#define SINTER_SRC_FUSION_FIT_ORDER_CHECK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"

namespace sinter {

// Of one chain on one chip, which outlive it. Not thread-safe.
class OrderCheck {
 public:
  OrderCheck(const Chain& chain, const DeviceModel& model, bool batch_invariant)
      : chain_(chain), model_(model), batch_invariant_(batch_invariant) {}

  // OK where every kernel is batch-invariant, or none is, as asked for; and where it is, where
  // products have the order of CheckRowOrder, and a plan with anything else than products the
  // RowOrder of the plan that is made for kRowOrderBucket. The chain is planned for that once, when
  // the first such plan is checked.
  absl::Status Check(const Plan& plan);

 private:
  absl::Status CheckKernel(const KernelSpec& spec) const;
  absl::StatusOr<std::string> Wanted();

  const Chain& chain_;
  const DeviceModel& model_;
  const bool batch_invariant_;
  std::optional<std::string> wanted_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_ORDER_CHECK_H_
