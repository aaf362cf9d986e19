#include "runtime/launch/tensor_map.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kAlignment = 16;
constexpr int64_t kMaxExtent = int64_t{1} << 32;
constexpr uint64_t kStrideBound = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256;
constexpr int32_t kMaxCorner = 128;  // of rank 4
constexpr uint32_t kMaxElementStride = 8;

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

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

// Bytes of the inner box row that the swizzle pattern spans, 0 when there is no bound.
uint64_t SwizzleSpan(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    case Swizzle::k128B:
      return 128;
    case Swizzle::kNone:
      return 0;
  }
  return 0;
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

absl::Status CheckWalk(const TensorMapTemplate& map) {
  if (map.dims.size() != 4 || map.box.size() != 2 || map.stride_bytes.size() != 3) {
    return Bad("an im2col map has rank 4 and a box of rank 2, not ", map.dims.size(), " and ",
               map.box.size());
  }
  for (int i = 0; i < 2; ++i) {
    for (const int32_t corner : {map.walk->lower[i], map.walk->upper[i]}) {
      if (corner < -kMaxCorner || corner >= kMaxCorner) {
        return Bad("corner ", corner, " is outside -", kMaxCorner, "..", kMaxCorner - 1);
      }
    }
    if (map.walk->strides[i] < 1 || map.walk->strides[i] > kMaxElementStride) {
      return Bad("element stride ", map.walk->strides[i], " is outside 1..", kMaxElementStride);
    }
    if (map.box[i] < 1 || map.box[i] > kMaxBox) {
      return Bad("box ", map.box[i], " of an im2col map is outside 1..", kMaxBox);
    }
  }
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Dim dim = map.dims[i];
    if (i < 3 && dim.symbolic) return Bad("dimension ", i, " of an im2col map is M, only 3 may be");
    if (!dim.symbolic && (dim.value < 1 || dim.value > kMaxExtent)) {
      return Bad("dimension ", i, ": extent ", dim.value, " is outside 1..", kMaxExtent);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckExtents(const TensorMapTemplate& map) {
  if (map.walk.has_value()) return CheckWalk(map);
  int symbolic = 0;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Dim dim = map.dims[i];
    symbolic += dim.symbolic ? 1 : 0;
    if (!dim.symbolic && (dim.value < 1 || dim.value > kMaxExtent)) {
      return Bad("dimension ", i, ": extent ", dim.value, " is outside 1..", kMaxExtent);
    }
    if (map.box[i] < 1 || map.box[i] > kMaxBox) {
      return Bad("dimension ", i, ": box ", map.box[i], " is outside 1..", kMaxBox);
    }
  }
  if (symbolic > 1) return Bad(symbolic, " dimensions are M, at most 1 may be");
  return absl::OkStatus();
}

absl::Status CheckStrides(const TensorMapTemplate& map) {
  for (size_t i = 0; i < map.stride_bytes.size(); ++i) {
    const uint64_t stride = map.stride_bytes[i];
    if (stride == 0 || stride >= kStrideBound) {
      return Bad("dimension ", i + 1, ": stride ", stride, " bytes is outside 16..", kStrideBound,
                 " - 16");
    }
    if (stride % kAlignment != 0) {
      return Bad("dimension ", i + 1, ": stride ", stride, " bytes is not a multiple of 16");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckInnerBox(const TensorMapTemplate& map) {
  const uint64_t bytes = uint64_t{map.box[0]} * static_cast<uint64_t>(SizeOf(map.dtype));
  if (bytes % kAlignment != 0) {
    return Bad("inner box of ", bytes, " bytes is not a multiple of 16");
  }
  const uint64_t span = SwizzleSpan(map.swizzle);
  if (span != 0 && bytes > span) {
    return Bad("inner box of ", bytes, " bytes exceeds the swizzle span of ", span);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTensorMap(const TensorMapTemplate& map) {
  const size_t rank = map.dims.size();
  if (rank < 1 || rank > 5) return Bad("rank ", rank, " is outside 1..5");
  if (!map.walk.has_value() && (map.stride_bytes.size() != rank - 1 || map.box.size() != rank)) {
    return Bad("rank ", rank, " needs ", rank - 1, " strides and ", rank,
               " box extents, there are ", map.stride_bytes.size(), " and ", map.box.size());
  }
  CUtensorMapDataType type;
  if (!TypeOf(map.dtype, &type)) return Bad("unknown dtype ", static_cast<int>(map.dtype));
  if (map.swizzle > Swizzle::k128B) return Bad("unknown swizzle ", static_cast<int>(map.swizzle));
  SINTER_RETURN_IF_ERROR(CheckExtents(map));
  SINTER_RETURN_IF_ERROR(CheckStrides(map));
  return CheckInnerBox(map);
}

absl::StatusOr<PreparedMap> PrepareTensorMap(const TensorMapTemplate& map, DevicePtr buffer) {
  PreparedMap out;
  TypeOf(map.dtype, &out.type);
  out.swizzle = SwizzleOf(map.swizzle);
  out.rank = static_cast<uint32_t>(map.dims.size());
  out.address = buffer + map.offset_bytes;
  if (out.address % kAlignment != 0) {
    return Bad("buffer ", map.buffer, ": address 0x", absl::Hex(out.address), " (offset ",
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
    if (address % kAlignment != 0) {
      return Bad("row offset ", row_offset, " puts a tensor at 0x", absl::Hex(address),
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
