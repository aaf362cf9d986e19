#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/launch/binding.h"
#include "src/base/ports.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kMapAlignment = 16;

bool TypeOf(DType dtype, CUtensorMapDataType* out) {
  switch (dtype) {
    case DType::kF32:
      *out = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
      return true;
    case DType::kF16:
      *out = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
      return true;
    case DType::kBF16:
      *out = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
      return true;
    case DType::kS32:
      *out = CU_TENSOR_MAP_DATA_TYPE_INT32;
      return true;
    default:
      *out = CU_TENSOR_MAP_DATA_TYPE_UINT8;
      return SizeOf(dtype) == 1;
  }
}

CUtensorMapSwizzle SwizzleOf(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k32B:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::k64B:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::k128B:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::kNone:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

absl::StatusOr<PreparedMap> PrepareTensorMap(const TensorMapTemplate& map, DevicePtr buffer) {
  PreparedMap out;
  if (!TypeOf(map.dtype, &out.type))
    return Invalid("no tensor map has elements of ", NameOf(map.dtype));
  out.swizzle = SwizzleOf(map.swizzle);
  out.rank = static_cast<uint32_t>(map.dims.size());
  out.address = buffer + map.offset_bytes;
  if (out.address % kMapAlignment != 0) {
    return Invalid("buffer ", map.buffer, ": address 0x", absl::Hex(out.address), " (offset ",
                   map.offset_bytes, ") is not 16-byte aligned");
  }
  std::copy(map.stride_bytes.begin(), map.stride_bytes.end(), out.strides);
  std::copy(map.box.begin(), map.box.end(), out.box);
  if (map.walk.has_value()) {
    out.im2col = true;
    std::copy(map.walk->lower.begin(), map.walk->lower.end(), out.lower);
    std::copy(map.walk->upper.begin(), map.walk->upper.end(), out.upper);
    std::copy(map.walk->strides.begin(), map.walk->strides.end(), out.element_strides + 1);
  }
  for (size_t i = 0; i < map.dims.size(); ++i) {
    out.dims[i] = static_cast<cuuint64_t>(map.dims[i].value);
    if (!map.dims[i].symbolic) continue;
    out.m_dim = static_cast<int>(i);
    if (map.buffer == kWorkspaceBuffer) continue;  // every turn of a looped launch reuses its rows
    out.m_stride = i == 0 ? static_cast<uint64_t>(SizeOf(map.dtype)) : map.stride_bytes[i - 1];
  }
  return out;
}

absl::Status EncodeTensorMap(const Driver& driver, const PreparedMap& map, int64_t m,
                             int64_t row_offset, CUtensorMap* out) {
  cuuint64_t dims[5];
  std::copy(map.dims, map.dims + 5, dims);
  DevicePtr address = map.address;
  if (map.m_dim >= 0) {
    // A map must have a row; a kernel that is launched without any loads none that exists.
    dims[map.m_dim] = static_cast<cuuint64_t>(std::max<int64_t>(m, 1));
    address += map.m_stride * static_cast<uint64_t>(row_offset);
    if (address % kMapAlignment != 0) {
      return Invalid("row offset ", row_offset, " puts a tensor at 0x", absl::Hex(address),
                     ", which is not 16-byte aligned");
    }
  }
  void* const pointer = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  if (map.im2col) {
    return driver.Check(
        driver->TensorMapEncodeIm2col(
            out, map.type, map.rank, pointer, dims, map.strides, map.lower, map.upper, map.box[0],
            map.box[1], map.element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, map.swizzle,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeIm2col");
  }
  return driver.Check(driver->TensorMapEncodeTiled(
                          out, map.type, map.rank, pointer, dims, map.strides, map.box,
                          map.element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, map.swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                      "cuTensorMapEncodeTiled");
}

namespace {

constexpr const char* kAxis[3] = {"x", "y", "z"};

absl::Status OverLimit(absl::string_view what, uint64_t value, uint64_t limit) {
  return FailedPrecondition(what, " ", value, " exceeds the device's ", limit);
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
    return FailedPrecondition("the device has no cooperative launch");
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
    return FailedPrecondition("threads per block ", ThreadsPerBlock(recipe),
                              " exceeds the kernel's ", max_threads);
  }
  const int64_t total = int64_t{recipe.shared_bytes} + static_bytes;
  if (total > device.limits().max_shared_bytes) {
    return FailedPrecondition("shared memory per block in bytes ", recipe.shared_bytes,
                              " dynamic + ", static_bytes, " static exceeds the device's ",
                              device.limits().max_shared_bytes);
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
      return Invalid("the recipe gives ", args.size(), " arguments, the kernel takes ",
                     declared ? "more" : absl::StrCat(i));
    }
    if (declared && size != SizeOfArg(args[i])) {
      return Invalid("argument ", i, " has ", SizeOfArg(args[i]),
                     " bytes, the kernel's parameter has ", size);
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
