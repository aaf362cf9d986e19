// The stack of one launch: pointers to its arguments, and the arguments that depend on M.
#ifndef SINTER_RUNTIME_LAUNCH_FRAME_H_
#define SINTER_RUNTIME_LAUNCH_FRAME_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/launch/binding.h"
#include "runtime/launch/recipe_check.h"

namespace sinter {

// Borrows from the binding that filled it. Left unset but for what that binding needs.
struct Frame {
  void* params[kMaxArgs];
  uint64_t pointers[kMaxArgs];
  CUtensorMap maps[kMaxTensorMaps];
  CUlaunchAttribute attributes[3];
  int32_t m;
};

// Fills in all but the attributes, for an M of `m` that starts `row_offset` into the buffers, each
// of the recipe's rows_per_m rows.
// INVALID_ARGUMENT when either is beyond what 32 bits count, or moves a tensor off its alignment.
absl::Status FillParams(const Driver& driver, const Binding& bound, int64_t m, int64_t row_offset,
                        Frame* frame);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_FRAME_H_
