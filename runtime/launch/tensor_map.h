// Tensor maps: a template with its address, and its encoding.
#ifndef SINTER_RUNTIME_LAUNCH_TENSOR_MAP_H_
#define SINTER_RUNTIME_LAUNCH_TENSOR_MAP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

// A template with its address: what an encoding needs, and no container in it.
struct PreparedMap {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  uint32_t rank = 0;
  int m_dim = -1;  // the dimension whose extent is M, -1 when there is none
  DevicePtr address = 0;
  uint64_t m_stride = 0;  // bytes that one row of a row offset moves it; 0 in the workspace
  cuuint64_t dims[5] = {};
  cuuint64_t strides[4] = {};
  cuuint32_t box[5] = {};
  bool im2col = false;  // box is {channels, pixels}; M counts images
  int lower[2] = {}, upper[2] = {};
  cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
};

// `map` must have passed LaunchRecipe::Check. INVALID_ARGUMENT for a dtype that tensor maps lack,
// and when buffer + offset is not 16-byte aligned.
absl::StatusOr<PreparedMap> PrepareTensorMap(const TensorMapTemplate& map, DevicePtr buffer);

// Encodes for `m` rows that start `row_offset` rows into the buffer. A map without M ignores both.
// Does not allocate unless it fails. Host arithmetic only: needs no context and no stream.
absl::Status EncodeTensorMap(const Driver& driver, const PreparedMap& map, int64_t m,
                             int64_t row_offset, CUtensorMap* out);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_TENSOR_MAP_H_
