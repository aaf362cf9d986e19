// Touches: what a kernel reads and writes in one launch, as its recipe and the literals of its
// source say: buffers, offsets, extents, strides. Nothing here asks the chain.
#pragma once

#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"
#include "tests/support/recipes/address_set.h"

namespace sinter::testing {

struct Touch {
  // kScratch: the kernel writes and reads it, for nobody else. kFlags: in the workspace's header.
  enum class Kind { kRead, kWrite, kScratch, kFlags };

  std::string what;
  Kind kind = Kind::kRead;
  int buffer = 0;
  int64_t element = 0;  // bytes
  AddressSet bytes;
};

// `m`: the launch's; `first_row`: M of the passes before it. `bucket`: the plan's.
struct Pass {
  int64_t m = 0, first_row = 0, bucket = 0;
};

// Every family is known, except the ones that tests define: their kernels have no touches.
std::vector<Touch> TouchesOf(const KernelSpec& spec, const LaunchRecipe& recipe, const Pass& pass);

}  // namespace sinter::testing
