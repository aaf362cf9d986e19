// The launch recipe of a kernel of the stitch family.
#ifndef SINTER_SRC_STITCH_CODE_STITCH_RECIPE_H_
#define SINTER_SRC_STITCH_CODE_STITCH_RECIPE_H_

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/stitch/spec.h"

namespace sinter {

// INVALID_ARGUMENT when operands are missing or misplaced, FAILED_PRECONDITION when the parts of a
// packed kernel do not go together. Precondition: the code's family is kStitch.
absl::StatusOr<LaunchRecipe> StitchRecipe(const StitchCode& code, const StitchBinding& binding);

// The argument that points to `operand`, whose rows, those of a launch, are `row_bytes` apart; 0:
// it has none.
ArgSlot PointerSlot(const BufferPlace& operand, int64_t row_bytes);
int64_t RowBytesOf(const TensorType& type, const std::vector<Stride>& strides);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_CODE_STITCH_RECIPE_H_
