// Whether a loaded function is the one that a recipe describes.
#ifndef SINTER_RUNTIME_LAUNCH_FUNCTION_CHECK_H_
#define SINTER_RUNTIME_LAUNCH_FUNCTION_CHECK_H_

#include <cuda.h>

#include <cstddef>

#include "absl/status/status.h"
#include "runtime/driver/device.h"
#include "src/base/launch_recipe.h"

namespace sinter {

// Bytes of an argument.
size_t SizeOfArg(const ArgSlot& arg);

// FAILED_PRECONDITION where the function cannot have the recipe's threads or shared memory,
// INVALID_ARGUMENT where its parameters are not the recipe's in number or size, which a driver
// before 12.4 does not tell; the message has the value and the bound. Inside a DriverScope.
absl::Status CheckFunction(const Device& device, CUfunction function, const LaunchRecipe& recipe);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_FUNCTION_CHECK_H_
