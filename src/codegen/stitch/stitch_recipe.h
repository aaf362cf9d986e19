// How a kernel of the stitch family is launched.
#ifndef SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_
#define SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/plan/plan.h"
#include "src/plan/stitch/program.h"

namespace sinter {

// INVALID_ARGUMENT when operands are missing or misplaced.
absl::StatusOr<LaunchRecipe> StitchRecipe(const KernelSpec& spec, const StitchProgram& program);
// The same of a packed kernel. FAILED_PRECONDITION when its parts do not go together.
absl::StatusOr<LaunchRecipe> PackedRecipe(const KernelSpec& spec);

}  // namespace sinter

#endif  // SINTER_SRC_CODEGEN_STITCH_STITCH_RECIPE_H_
