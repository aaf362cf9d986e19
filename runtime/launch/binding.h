// A recipe bound to buffers: what one launch needs, with everything that does not depend on M
// computed.
#ifndef SINTER_RUNTIME_LAUNCH_BINDING_H_
#define SINTER_RUNTIME_LAUNCH_BINDING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/row_maps.h"
#include "runtime/launch/tensor_map.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

// One kernel argument. `value` holds the bytes of everything but tensor maps and M.
struct BoundArg {
  ArgKind kind = ArgKind::kPointer;
  int map = 0;             // kTensorMap; kBytes: index into Binding::bytes
  uint64_t value = 0;      // little-endian: the first 4 or 8 bytes are the argument
  uint64_t row_bytes = 0;  // kPointer: bytes per row of M, 0 when the buffer does not depend on M
};

struct BoundMap {
  PreparedMap prepared;
  CUtensorMap encoded;  // valid when prepared.m_dim < 0
  size_t row_map = 0;   // else its place among those that depend on M
};

// Immutable once made, but for the maps that it keeps. Holds no driver object: destroying one
// anywhere is safe.
struct Binding : BoundKernel {
  CUfunction function = nullptr;  // whose kernel this is
  CUlaunchConfig config{};        // without stream and attributes
  CUlaunchAttribute cluster{};    // used when has_cluster
  bool has_cluster = false;
  bool cooperative = false;
  bool pdl = false;
  int64_t rows_per_m = 1;
  std::vector<BoundArg> args;
  std::vector<BoundMap> maps;
  std::vector<std::string> bytes;
  RowMaps row_maps;
};

// `recipe` must have passed CheckRecipe. Checks that every buffer exists, is not null and is
// 16-byte aligned: INVALID_ARGUMENT naming the buffer's index and address. Encodes the maps that do
// not depend on M.
absl::StatusOr<std::unique_ptr<Binding>> MakeBinding(const Driver& driver, CUfunction function,
                                                     const LaunchRecipe& recipe,
                                                     const BufferList& buffers);

// Grid, block and shared memory of the recipe; no attributes.
CUlaunchConfig ConfigOf(const LaunchRecipe& recipe);
CUlaunchAttribute ClusterAttribute(const LaunchRecipe& recipe);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_BINDING_H_
