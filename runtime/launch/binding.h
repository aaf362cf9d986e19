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
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/recipe_check.h"
#include "runtime/launch/tensor_map.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

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

// Immutable once made, but for the maps that it keeps. Holds no driver object: destroying one
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

// Borrows from the binding that filled it. Left unset but for what that binding needs.
struct Frame {
  void* params[kMaxArgs];
  uint64_t pointers[kMaxArgs];
  CUtensorMap maps[kMaxTensorMaps];
  CUlaunchAttribute attributes[3];
  int32_t m;
};

// Fills in all but the attributes, for an M of `m` that starts `row_offset` into the buffers, each
// of the recipe's rows_per_m rows.
// INVALID_ARGUMENT when either is beyond what 32 bits count, or moves a tensor off its alignment.
absl::Status FillParams(const Driver& driver, const Binding& bound, int64_t m, int64_t row_offset,
                        Frame* frame);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_BINDING_H_
