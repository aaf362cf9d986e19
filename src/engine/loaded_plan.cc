#include "src/engine/loaded_plan.h"

#include "src/chain/ffn_view.h"

namespace sinter {

int64_t FixedRowsOf(const Chain& chain) {
  if (chain.UsesM()) return -1;
  const absl::StatusOr<FfnView> view = ViewAsFfn(chain);
  return view.ok() ? view->m.value : 0;
}

}  // namespace sinter
