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

// The parts that a recipe of other arguments is made of (src/standin): all but entry, shared memory
// and the arguments behind the tensor maps; a pointer to an operand; a number; the launch's rows.
absl::StatusOr<LaunchRecipe> ProductLaunch(const ProductCode& code, const ProductBinding& binding);
absl::StatusOr<ArgSlot> ProductPointer(const ProductCode& code, const ProductBinding& binding,
                                       Role role);
ArgSlot ConstantSlot(int64_t value);
ArgSlot RowsSlot(const ProductBinding& binding);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_CODE_RECIPE_H_
