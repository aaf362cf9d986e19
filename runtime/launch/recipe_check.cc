#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/launch/binding.h"
#include "src/base/ports.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr const char* kAxis[3] = {"x", "y", "z"};

absl::Status OverLimit(absl::string_view what, uint64_t value, uint64_t limit) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " ", value, " exceeds the device's ", limit));
}

absl::Status CheckLimits(const LaunchRecipe& recipe, const DeviceLimits& limits) {
  for (int i = 0; i < 3; ++i) {
    if (recipe.grid[i] > static_cast<uint32_t>(limits.max_grid[i])) {
      return OverLimit(absl::StrCat("grid.", kAxis[i]), recipe.grid[i], limits.max_grid[i]);
    }
    if (recipe.block[i] > static_cast<uint32_t>(limits.max_block[i])) {
      return OverLimit(absl::StrCat("block.", kAxis[i]), recipe.block[i], limits.max_block[i]);
    }
  }
  if (ThreadsPerBlock(recipe) > static_cast<uint64_t>(limits.max_threads_per_block)) {
    return OverLimit("threads per block", ThreadsPerBlock(recipe), limits.max_threads_per_block);
  }
  if (recipe.shared_bytes > static_cast<uint64_t>(limits.max_shared_bytes)) {
    return OverLimit("dynamic shared memory per block in bytes", recipe.shared_bytes,
                     limits.max_shared_bytes);
  }
  if (recipe.cooperative && !limits.cooperative) {
    return absl::FailedPreconditionError("the device has no cooperative launch");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t BlocksPerCluster(const LaunchRecipe& recipe) {
  return uint64_t{recipe.cluster[0]} * recipe.cluster[1] * recipe.cluster[2];
}

uint64_t ThreadsPerBlock(const LaunchRecipe& recipe) {
  return uint64_t{recipe.block[0]} * recipe.block[1] * recipe.block[2];
}

absl::Status CheckRecipe(const LaunchRecipe& recipe, const DeviceLimits& limits) {
  SINTER_RETURN_IF_ERROR(recipe.Check());
  return CheckLimits(recipe, limits);
}

namespace {

absl::StatusOr<int> AttributeOf(const Driver& driver, CUfunction function,
                                CUfunction_attribute attribute) {
  int value = 0;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->FuncGetAttribute(&value, attribute, function), "cuFuncGetAttribute"));
  return value;
}

absl::Status CheckResources(const Device& device, CUfunction function, const LaunchRecipe& recipe) {
  const Driver& driver = device.driver();
  SINTER_ASSIGN_OR_RETURN(const int max_threads,
                          AttributeOf(driver, function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  SINTER_ASSIGN_OR_RETURN(const int static_bytes,
                          AttributeOf(driver, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  if (ThreadsPerBlock(recipe) > static_cast<uint64_t>(max_threads)) {
    return absl::FailedPreconditionError(absl::StrCat("threads per block ", ThreadsPerBlock(recipe),
                                                      " exceeds the kernel's ", max_threads));
  }
  const int64_t total = int64_t{recipe.shared_bytes} + static_bytes;
  if (total > device.limits().max_shared_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "shared memory per block in bytes ", recipe.shared_bytes, " dynamic + ", static_bytes,
        " static exceeds the device's ", device.limits().max_shared_bytes));
  }
  return absl::OkStatus();
}

// The driver copies as many parameters as the kernel declares: a recipe with fewer would be read
// past its end.
absl::Status CheckSignature(const Driver& driver, CUfunction function,
                            const std::vector<ArgSlot>& args) {
  if (driver->FuncGetParamInfo == nullptr) return absl::OkStatus();
  for (size_t i = 0; i <= args.size(); ++i) {
    size_t offset = 0;
    size_t size = 0;
    const CUresult result = driver->FuncGetParamInfo(function, i, &offset, &size);
    const bool declared = result == CUDA_SUCCESS;
    if (!declared && result != CUDA_ERROR_INVALID_VALUE) {
      return driver.Check(result, "cuFuncGetParamInfo");
    }
    if (declared != (i < args.size())) {
      return absl::InvalidArgumentError(absl::StrCat("the recipe gives ", args.size(),
                                                     " arguments, the kernel takes ",
                                                     declared ? "more" : absl::StrCat(i)));
    }
    if (declared && size != SizeOfArg(args[i])) {
      return absl::InvalidArgumentError(absl::StrCat("argument ", i, " has ", SizeOfArg(args[i]),
                                                     " bytes, the kernel's parameter has ", size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

size_t SizeOfArg(const ArgSlot& arg) {
  switch (arg.kind) {
    case ArgKind::kTensorMap:
      return sizeof(CUtensorMap);
    case ArgKind::kPointer:
    case ArgKind::kRoom:
    case ArgKind::kPlan:
      return sizeof(DevicePtr);
    case ArgKind::kSymbolM:
    case ArgKind::kFirstRow:
    case ArgKind::kInt32:
    case ArgKind::kFloat32:
      return 4;
    case ArgKind::kBytes:
      return arg.bytes.size();
  }
  return 0;
}

absl::Status CheckFunction(const Device& device, CUfunction function, const LaunchRecipe& recipe) {
  SINTER_RETURN_IF_ERROR(CheckResources(device, function, recipe));
  return CheckSignature(device.driver(), function, recipe.args);
}

}  // namespace sinter
