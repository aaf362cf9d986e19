// PlanUse: what the callers of a plan rely on, whatever its kernels are.
#ifndef SINTER_SRC_ENGINE_PLAN_USE_H_
#define SINTER_SRC_ENGINE_PLAN_USE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/base/digest.h"

namespace sinter {

// A value.
struct PlanUse {
  Digest chain;                      // canonical
  std::vector<int32_t> input_order;  // Chain::InputOrder of the caller's chain
  int64_t bucket = 0;
  bool batch_invariant = false;  // of a plan: it is; of what is wanted: it must be
  Digest chip;                   // ChipDigest
  int ordinal = -1;              // of the GPU; -1: none, or a test's
  bool launches = false;         // has a GPU
};

// OK when a plan of `given` may take the place of one made for `wanted`; else INVALID_ARGUMENT
// naming the first thing that differs.
absl::Status CheckUse(const PlanUse& wanted, const PlanUse& given);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PLAN_USE_H_
