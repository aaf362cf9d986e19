#include "src/engine/loaded_plan.h"

#include "src/base/codec.h"
#include "src/chain/products_view.h"

namespace sinter {

Digest AgreedDigest(const LoadedPlan& plan) {
  if (plan.tuning_digest == Digest()) return plan.chosen_digest;
  ByteWriter w;
  w.Raw("sinter tuned plan 1");
  w.Raw(plan.chosen_digest.View());
  w.Raw(plan.tuning_digest.View());
  return Sha256(w.str());
}

int64_t RowsAtOnce(const Plan& plan) {
  const bool any = plan.kernels.size() == 1 && plan.kernels.front().spec.stitch != nullptr;
  return any ? kMaxExtent : kLargestBucket;
}

int64_t FixedRowsOf(const Chain& chain) {
  if (chain.UsesM()) return -1;
  const absl::StatusOr<ProductsView> view = ViewAsProducts(chain);
  return view.ok() ? view->m.value : 1;  // other kernels know their own extents
}

}  // namespace sinter
