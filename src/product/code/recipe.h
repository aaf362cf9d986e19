// The launch recipe of a kernel of products: tensor maps, arguments, grid, attributes.
#ifndef SINTER_SRC_PRODUCT_CODE_RECIPE_H_
#define SINTER_SRC_PRODUCT_CODE_RECIPE_H_

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/product/code/product_code.h"

namespace sinter {

// INVALID_ARGUMENT naming the operand when its row stride or offset is not a multiple of 16 bytes,
// as tensor maps need.
absl::StatusOr<LaunchRecipe> ProductRecipe(const ProductCode& code, const ProductBinding& binding);

// Of the stand-in with the code's schedule (stand_in.h). INVALID_ARGUMENT when there is none.
absl::StatusOr<LaunchRecipe> StandInRecipe(const ProductCode& code, const ProductBinding& binding);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_RECIPE_H_
