// Whether a device can run a launch recipe, and whether a loaded function is the one that it
// describes.
#ifndef SINTER_RUNTIME_LAUNCH_RECIPE_CHECK_H_
#define SINTER_RUNTIME_LAUNCH_RECIPE_CHECK_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/driver/device.h"
#include "src/base/launch_recipe.h"

namespace sinter {

// Larger clusters need the kernel's consent to a non-portable size.
constexpr uint64_t kPortableCluster = 8;

uint64_t BlocksPerCluster(const LaunchRecipe& recipe);
uint64_t ThreadsPerBlock(const LaunchRecipe& recipe);

// INVALID_ARGUMENT as LaunchRecipe::Check says, FAILED_PRECONDITION for a recipe that exceeds
// `limits`; the message has the value and the bound.
absl::Status CheckRecipe(const LaunchRecipe& recipe, const DeviceLimits& limits);

// Bytes of an argument.
size_t SizeOfArg(const ArgSlot& arg);

// FAILED_PRECONDITION where the function cannot have the recipe's threads or shared memory,
// INVALID_ARGUMENT where its parameters are not the recipe's in number or size, which a driver
// before 12.4 does not tell; the message has the value and the bound. Inside a DriverScope.
absl::Status CheckFunction(const Device& device, CUfunction function, const LaunchRecipe& recipe);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_RECIPE_CHECK_H_
