// A recipe bound to buffers: what one launch needs, with everything that does not depend on M
// computed; and the frame of one launch, which has the rest.
#ifndef SINTER_RUNTIME_LAUNCH_BINDING_H_
#define SINTER_RUNTIME_LAUNCH_BINDING_H_

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver/driver.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

// Whether a device can run a launch recipe, and whether a loaded function is the one that it
// describes.

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

// Tensor maps: a template with its address, and its encoding.

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

// A binding keeps the encoded maps of the first four values of M that it is launched with, so that
// a launch with one of them encodes nothing. Thread-safe after Resize. Invariant: a slot is filled
// once, by the launch that claimed it, before its number of rows shows.
class RowMaps {
 public:
  // `count` maps for each number of rows. Before the first launch.
  void Resize(size_t count) {
    count_ = count;
    maps_ = std::make_unique<CUtensorMap[]>(kSlots * count);
  }
  size_t count() const { return count_; }

  // The maps of `m` rows, or null.
  const CUtensorMap* Find(int64_t m) const {
    for (size_t i = 0; i < kSlots; ++i) {
      if (rows_[i].load(std::memory_order_acquire) == m) return &maps_[i * count_];
    }
    return nullptr;
  }

  // Keeps `count` maps of `m` rows where there is room.
  void Keep(int64_t m, const CUtensorMap* maps) const {
    for (size_t i = 0; i < kSlots; ++i) {
      int64_t free = kFree;
      if (!rows_[i].compare_exchange_strong(free, kClaimed, std::memory_order_relaxed)) continue;
      std::copy(maps, maps + count_, &maps_[i * count_]);
      rows_[i].store(m, std::memory_order_release);
      return;
    }
  }

 private:
  static constexpr size_t kSlots = 4;
  static constexpr int64_t kFree = -2, kClaimed = -1;

  size_t count_ = 0;
  std::unique_ptr<CUtensorMap[]> maps_;
  mutable std::atomic<int64_t> rows_[kSlots] = {kFree, kFree, kFree, kFree};
};

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

// Immutable once made, except the maps that it keeps. Holds no driver object: destroying one
// anywhere is safe.
struct Binding : BoundKernel {
  CUfunction function = nullptr;  // whose kernel this is
  CUlaunchConfig config{};        // without stream and attributes
  CUlaunchAttribute cluster{};    // used when has_cluster
  bool has_cluster = false;
  bool cooperative = false;
  bool pdl = false;
  int64_t rows_per_m = 1, grid_rows = 0;
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

// Blocks along x of a launch of `m` rows.
uint32_t BlocksFor(const Binding& bound, int64_t m);

// Borrows from the binding that filled it. Fields that the binding does not need are unset.
struct Frame {
  void* params[kMaxArgs];
  uint64_t pointers[kMaxArgs];
  CUtensorMap maps[kMaxTensorMaps];
  CUlaunchAttribute attributes[3];
  int32_t m, first_row;
};

// Fills in all but the attributes, for an M of `m` that starts `row_offset` into the buffers, each
// of the recipe's rows_per_m rows.
// INVALID_ARGUMENT when either is beyond what 32 bits count, or moves a tensor off its alignment.
absl::Status FillParams(const Driver& driver, const Binding& bound, int64_t m, int64_t row_offset,
                        Frame* frame);

// The Loader port on the driver, the kernels that it loads, and ReleaseQueue: objects that must not
// die where their last owner let them go.

// A graph that dies drops its user objects in a callback on a thread of the driver, where calling
// the driver is illegal; a plan that died there would unload modules. The callback pushes the plan
// here instead, and the next call on a slow path releases it. Thread-safe. Nothing is released
// under the lock.
class ReleaseQueue {
 public:
  // Takes `object`. After Close() there is no later slow path: a thread of its own releases it.
  void Push(std::shared_ptr<const void> object);
  // Releases what was pushed. Not to be called from a CUDA callback.
  void Drain();
  // Drains for the last time.
  void Close();

 private:
  std::mutex mutex_;  // guards both fields
  std::vector<std::shared_ptr<const void>> pending_;
  bool closed_ = false;
};

// The LoadedKernel port: a module on a device, launched with cuLaunchKernelEx.

// Loads `cubin` and prepares its entry for recipes like `recipe`: dynamic shared memory, cluster
// size, no lazy loading left. `queue` is drained where the kernel is on a slow path. The kernel
// unloads its module when it dies, which must not happen inside a CUDA callback: code that ties a
// kernel to a graph hands it over through `queue`.
absl::StatusOr<std::shared_ptr<LoadedKernel>> LoadKernel(
    const std::shared_ptr<const Device>& device, absl::string_view cubin,
    const LaunchRecipe& recipe, std::shared_ptr<ReleaseQueue> queue);

// As LoadedKernel::AddNode and UpdateNode. kDriver when a call fails; the graph is then as it was.
absl::StatusOr<GraphNodeHandle> AddKernelNode(const Device& device, const Binding& bound,
                                              GraphHandle graph, const NodeEdges& edges, int64_t m,
                                              int64_t row_offset);
absl::Status UpdateKernelNode(const Device& device, const Binding& bound, GraphExecHandle exec,
                              GraphNodeHandle node, int64_t m, int64_t row_offset);
absl::StatusOr<GraphNodeHandle> AddEmptyNode(const Device& device, GraphHandle graph,
                                             const NodeEdges& edges);
void RemoveNode(const Device& device, GraphNodeHandle node);

// Thread-safe. Kernels keep the device, not the loader. An object tied to a graph that dies is
// released at the next Load or Bind, or when the loader retires or dies; after that by a
// short-lived thread. Retire it before its owner goes when such an object keeps the loader alive.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_BINDING_H_
