// How a kernel of the stitch family is launched.
#ifndef SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_
#define SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/plan/kernel_code.h"

namespace sinter {

// INVALID_ARGUMENT when operands are missing or misplaced, FAILED_PRECONDITION when the parts of a
// packed kernel do not go together. Precondition: the code's family is kStitch.
absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const KernelBinding& binding);

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_
