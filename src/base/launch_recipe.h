// LaunchRecipe: how to launch one compiled kernel, as data. Made by codegen whenever a plan is
// loaded, run by runtime/launch; stored nowhere.
#ifndef SINTER_SRC_BASE_LAUNCH_RECIPE_H_
#define SINTER_SRC_BASE_LAUNCH_RECIPE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"

namespace sinter {

// A buffer as a plan numbers them: the chain's inputs in canonical order, then its outputs, then
// the workspace. `index` counts inputs and outputs from 0; kWorkspaceBuffer is the workspace.
constexpr int kWorkspaceBuffer = -1;

// Where a value begins: a buffer of the plan, and an offset in it.
struct BufferPlace {
  int buffer = 0;
  uint64_t offset_bytes = 0;
  SINTER_FIELDS(BufferPlace, buffer, offset_bytes);
};

enum class Swizzle : uint8_t { kNone = 0, k32B = 1, k64B = 2, k128B = 3 };

// How an im2col map walks the pixels of images: its dims are {channels, width, height, images}, its
// box is {channels, pixels} of one load, and M counts images. Both arrays: width, height.
struct PixelWalk {
  std::array<int32_t, 2> lower{0, 0}, upper{0, 0};  // corners of the box of first taps
  std::array<uint32_t, 2> strides{1, 1};            // pixels from one to the next
  SINTER_FIELDS(PixelWalk, lower, upper, strides);
};

// A TMA tensor map to encode at bind time. Dimension 0 is the contiguous one.
struct TensorMapTemplate {
  int buffer = 0;
  uint64_t offset_bytes = 0;  // into the buffer
  DType dtype = DType::kBF16;
  std::vector<Dim> dims;               // innermost first, 1..5
  std::vector<uint64_t> stride_bytes;  // of dims 1.., each a multiple of 16
  std::vector<uint32_t> box;           // elements, each 1..256
  Swizzle swizzle = Swizzle::k128B;
  std::optional<PixelWalk> walk = std::nullopt;  // an im2col map; none: boxes of `box`
  SINTER_FIELDS(TensorMapTemplate, buffer, offset_bytes, dtype, dims, stride_bytes, box, swizzle,
                walk);
};

enum class ArgKind : uint8_t {
  kTensorMap = 0,  // index into tensor_maps, 128 bytes by value
  kPointer = 1,    // device pointer: buffer + offset_bytes
  kSymbolM = 2,    // int32: the launch's m
  kInt32 = 3,      // constant
  kFloat32 = 4,    // constant
  kBytes = 5,      // constant bytes by value
  kFirstRow = 6,   // int32: rows of M that the passes before this one took
  kRoom = 7,       // device pointer: the room of the binding's group
  kPlan = 8,       // 64 bits, equal on all ranks that run one plan
};

struct ArgSlot {
  ArgKind kind = ArgKind::kPointer;
  int index = 0;              // tensor map, or buffer
  uint64_t offset_bytes = 0;  // kPointer
  int64_t int_value = 0;      // kInt32; kPointer: bytes per row of M, 0 without M
  double float_value = 0;     // kFloat32
  std::string bytes = {};     // kBytes: at most 2048, a multiple of 4
  SINTER_FIELDS(ArgSlot, kind, index, offset_bytes, int_value, float_value, bytes);
};

// The argument that points to `operand`. Its rows of M are `row_bytes` apart; 0: it has none.
// A looped launch advances the caller's buffers; the workspace is reused.
inline ArgSlot PointerSlot(const BufferPlace& operand, int64_t row_bytes) {
  return {ArgKind::kPointer, operand.buffer, operand.offset_bytes,
          operand.buffer == kWorkspaceBuffer ? 0 : row_bytes};
}

// A launch keeps its arguments on the stack.
constexpr int kMaxArgs = 512;
constexpr int kMaxTensorMaps = 16;
constexpr uint64_t kMaxRecipeSharedBytes = 256 * 1024;  // dynamic, of a block
// What offsets and strides of a recipe reach; more than any GPU has.
constexpr uint64_t kMaxRecipeBytes = uint64_t{1} << 40;

struct LaunchRecipe {
  std::string entry;
  std::array<uint32_t, 3> grid{1, 1, 1};
  std::array<uint32_t, 3> block{1, 1, 1};
  std::array<uint32_t, 3> cluster{1, 1, 1};
  uint32_t shared_bytes = 0;  // dynamic
  bool cooperative = false;   // blocks wait for one another across clusters: all must be resident
  // Tensor maps and arguments see M as the launch's m times this, and so do row offsets. In im2col
  // maps M is m.
  int64_t rows_per_m = 1;
  // How many rows `grid` is made for. A launch of more rows gets proportionally more blocks, so
  // that no block takes another turn. 0: the grid is fixed.
  int64_t grid_rows = 0;
  bool pdl = false;  // kernel executes griddepcontrol.wait: programmatic serialization is legal
  std::vector<TensorMapTemplate> tensor_maps;
  std::vector<ArgSlot> args;

  SINTER_FIELDS(LaunchRecipe, entry, grid, block, cluster, shared_bytes, cooperative, rows_per_m,
                grid_rows, pdl, tensor_maps, args);
  // INVALID_ARGUMENT naming the field, its value and the bound where no chip could launch it:
  // ranks, boxes, strides, indices, threads, shared memory. What a device has and where buffers lie
  // is checked in runtime/launch.
  absl::Status Check() const;
  std::string Encode() const;  // versioned bytes: equal recipes have equal ones
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_LAUNCH_RECIPE_H_
