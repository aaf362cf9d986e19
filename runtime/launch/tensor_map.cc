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

}  // namespace sinter
