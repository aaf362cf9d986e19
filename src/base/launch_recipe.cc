#include "src/base/launch_recipe.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint32_t kFormat = 3;

// Bounds of the driver and of chips that no recipe may pass (CUDA C Programming Guide, compute
// capability 9.0; CUDA Driver API, cuTensorMapEncodeTiled).
constexpr uint64_t kMaxEntryBytes = 256;
constexpr uint64_t kMaxGridX = 0x7fffffff;
constexpr uint64_t kMaxGridYZ = 65535;
constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kMaxBlockZ = 64;
constexpr uint64_t kMaxClusterBlocks = 16;
constexpr uint64_t kMaxArgBytes = 2048;
constexpr uint64_t kMaxRank = 5;
constexpr uint64_t kMaxBuffer = 4095;
constexpr uint64_t kMaxExtent = uint64_t{1} << 32;
constexpr uint64_t kMaxBox = 256;
constexpr uint64_t kTmaAlignment = 16;
constexpr int32_t kMaxCorner = 128;
constexpr uint64_t kMaxElementStride = 8;
constexpr uint64_t kMaxRowsPerM = uint64_t{1} << 24;

absl::Status Bad(absl::string_view field, uint64_t value, absl::string_view bound) {
  return Invalid("launch recipe: ", field, " = ", value, ", must be ", bound);
}

absl::Status CheckRange(absl::string_view field, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(field, value, absl::StrCat(low, "..", high));
}

absl::Status CheckMultiple(absl::string_view field, uint64_t value, uint64_t of) {
  if (value % of == 0) return absl::OkStatus();
  return Bad(field, value, absl::StrCat("a multiple of ", of));
}

bool IsIdentifier(absl::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (i == 0 || c < '0' || c > '9')) return false;
  }
  return !name.empty() && name.size() <= kMaxEntryBytes;
}

uint64_t Product(const std::array<uint32_t, 3>& v) {
  // Each factor is range-checked before, so that the product of three cannot wrap.
  return uint64_t{v[0]} * v[1] * v[2];
}

absl::Status CheckShape(const LaunchRecipe& r) {
  if (!IsIdentifier(r.entry)) {
    return Invalid("launch recipe: entry is not a C identifier of 1..256 characters");
  }
  const uint64_t grid_bounds[3] = {kMaxGridX, kMaxGridYZ, kMaxGridYZ};
  const uint64_t block_bounds[3] = {kMaxThreads, kMaxThreads, kMaxBlockZ};
  for (int i = 0; i < 3; ++i) {
    SINTER_RETURN_IF_ERROR(CheckRange("grid", r.grid[i], 1, grid_bounds[i]));
    SINTER_RETURN_IF_ERROR(CheckRange("block", r.block[i], 1, block_bounds[i]));
    SINTER_RETURN_IF_ERROR(CheckRange("cluster", r.cluster[i], 1, kMaxClusterBlocks));
    if (r.grid[i] % r.cluster[i] != 0) {
      return Bad("grid", r.grid[i], absl::StrCat("a multiple of the cluster's ", r.cluster[i]));
    }
  }
  SINTER_RETURN_IF_ERROR(CheckRange("threads per block", Product(r.block), 1, kMaxThreads));
  SINTER_RETURN_IF_ERROR(
      CheckRange("blocks per cluster", Product(r.cluster), 1, kMaxClusterBlocks));
  return CheckRange("shared_bytes", r.shared_bytes, 0, kMaxRecipeSharedBytes);
}

absl::Status CheckBuffer(int64_t buffer) {
  if (buffer == kWorkspaceBuffer || (buffer >= 0 && buffer <= static_cast<int64_t>(kMaxBuffer))) {
    return absl::OkStatus();
  }
  return Invalid("launch recipe: buffer = ", buffer, ", must be -1..", kMaxBuffer);
}

absl::Status CheckBox(const TensorMapTemplate& map) {
  for (uint32_t extent : map.box) SINTER_RETURN_IF_ERROR(CheckRange("box", extent, 1, kMaxBox));
  const uint64_t inner = map.box[0] * static_cast<uint64_t>(SizeOf(map.dtype));
  SINTER_RETURN_IF_ERROR(CheckMultiple("inner box bytes", inner, kTmaAlignment));
  if (map.swizzle == Swizzle::kNone) return absl::OkStatus();
  return CheckRange("inner box bytes", inner, kTmaAlignment, 16u << static_cast<int>(map.swizzle));
}

absl::Status CheckWalk(const TensorMapTemplate& map) {
  SINTER_RETURN_IF_ERROR(CheckRange("rank of an im2col map", map.dims.size(), 4, 4));
  SINTER_RETURN_IF_ERROR(CheckRange("strides", map.stride_bytes.size(), 3, 3));
  SINTER_RETURN_IF_ERROR(CheckRange("box rank of an im2col map", map.box.size(), 2, 2));
  for (int i = 0; i < 2; ++i) {
    for (int32_t corner : {map.walk->lower[i], map.walk->upper[i]}) {
      if (corner >= -kMaxCorner && corner < kMaxCorner) continue;
      return Invalid("launch recipe: corner = ", corner, ", must be -128..127");
    }
    SINTER_RETURN_IF_ERROR(
        CheckRange("element stride", map.walk->strides[i], 1, kMaxElementStride));
  }
  for (int i = 0; i < 3; ++i) {
    if (map.dims[i].symbolic) return Bad("dimension that is M", static_cast<uint64_t>(i), "3");
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const TensorMapTemplate& map) {
  if (map.walk.has_value()) return CheckWalk(map);
  const uint64_t rank = map.dims.size();
  SINTER_RETURN_IF_ERROR(CheckRange("rank", rank, 1, kMaxRank));
  SINTER_RETURN_IF_ERROR(CheckRange("strides", map.stride_bytes.size(), rank - 1, rank - 1));
  const auto of_m =
      std::count_if(map.dims.begin(), map.dims.end(), [](Dim dim) { return dim.symbolic; });
  SINTER_RETURN_IF_ERROR(CheckRange("dimensions that are M", static_cast<uint64_t>(of_m), 0, 1));
  return CheckRange("box rank", map.box.size(), rank, rank);
}

absl::Status CheckMap(const TensorMapTemplate& map) {
  SINTER_RETURN_IF_ERROR(CheckBuffer(map.buffer));
  if (!IsValid(map.dtype)) return Bad("dtype", static_cast<uint64_t>(map.dtype), "a known dtype");
  SINTER_RETURN_IF_ERROR(CheckRange("swizzle", static_cast<uint64_t>(map.swizzle), 0,
                                    static_cast<uint64_t>(Swizzle::k128B)));
  SINTER_RETURN_IF_ERROR(CheckRanks(map));
  SINTER_RETURN_IF_ERROR(CheckRange("tensor map offset", map.offset_bytes, 0, kMaxRecipeBytes));
  SINTER_RETURN_IF_ERROR(CheckMultiple("tensor map offset", map.offset_bytes, kTmaAlignment));
  for (const Dim& dim : map.dims) {
    if (dim.symbolic) continue;
    SINTER_RETURN_IF_ERROR(CheckRange("dim", static_cast<uint64_t>(dim.value), 1, kMaxExtent));
  }
  for (uint64_t stride : map.stride_bytes) {
    SINTER_RETURN_IF_ERROR(CheckRange("stride", stride, kTmaAlignment, kMaxRecipeBytes));
    SINTER_RETURN_IF_ERROR(CheckMultiple("stride", stride, kTmaAlignment));
  }
  return CheckBox(map);
}

absl::Status CheckArg(const ArgSlot& arg, size_t tensor_maps) {
  switch (arg.kind) {
    case ArgKind::kTensorMap:
      if (arg.index >= 0 && static_cast<size_t>(arg.index) < tensor_maps) return absl::OkStatus();
      return Invalid("launch recipe: tensor map index = ", arg.index, ", must be below ",
                     tensor_maps);
    case ArgKind::kPointer:
      SINTER_RETURN_IF_ERROR(CheckBuffer(arg.index));
      if (arg.int_value < 0) {
        return Invalid("launch recipe: row pitch = ", arg.int_value, ", must be >= 0");
      }
      return CheckRange("pointer offset", arg.offset_bytes, 0, kMaxRecipeBytes);
    case ArgKind::kInt32:
      if (arg.int_value >= std::numeric_limits<int32_t>::min() &&
          arg.int_value <= std::numeric_limits<int32_t>::max()) {
        return absl::OkStatus();
      }
      return Invalid("launch recipe: int argument = ", arg.int_value, ", must fit in 32 bits");
    case ArgKind::kFloat32:
      if (!std::isnan(arg.float_value)) return absl::OkStatus();
      return Invalid("launch recipe: float argument is not a number");
    case ArgKind::kSymbolM:
    case ArgKind::kFirstRow:
    case ArgKind::kRoom:
    case ArgKind::kPlan:
      return absl::OkStatus();
    case ArgKind::kBytes:
      SINTER_RETURN_IF_ERROR(CheckRange("bytes of an argument", arg.bytes.size(), 4, kMaxArgBytes));
      return CheckMultiple("bytes of an argument", arg.bytes.size(), 4);
  }
  return Bad("argument kind", static_cast<uint64_t>(arg.kind), "0..8");
}

void WriteMap(const TensorMapTemplate& map, ByteWriter& w) {
  w(map.buffer, map.offset_bytes, Word(map.dtype));
  w.U32(static_cast<uint32_t>(map.dims.size()));
  for (const Dim& dim : map.dims) w(dim.symbolic, dim.symbolic ? 0 : dim.value);
  w(map.stride_bytes, map.box, map.swizzle, map.walk);
}

absl::Status CheckLists(const LaunchRecipe& recipe) {
  SINTER_RETURN_IF_ERROR(CheckRange("tensor maps", recipe.tensor_maps.size(), 0, kMaxTensorMaps));
  for (const TensorMapTemplate& map : recipe.tensor_maps) SINTER_RETURN_IF_ERROR(CheckMap(map));
  SINTER_RETURN_IF_ERROR(CheckRange("arguments", recipe.args.size(), 0, kMaxArgs));
  for (const ArgSlot& arg : recipe.args) {
    SINTER_RETURN_IF_ERROR(CheckArg(arg, recipe.tensor_maps.size()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string LaunchRecipe::Encode() const {
  ByteWriter w;
  w(kFormat, entry, grid, block, cluster, shared_bytes, cooperative, rows_per_m, grid_rows, pdl);
  w.U32(static_cast<uint32_t>(tensor_maps.size()));
  for (const TensorMapTemplate& map : tensor_maps) WriteMap(map, w);
  w.U32(static_cast<uint32_t>(args.size()));
  for (const ArgSlot& arg : args) {
    w(arg.kind, arg.index, arg.offset_bytes, arg.int_value, arg.float_value);
    if (arg.kind == ArgKind::kBytes) w(arg.bytes);
  }
  return w.Take();
}

absl::Status LaunchRecipe::Check() const {
  SINTER_RETURN_IF_ERROR(CheckShape(*this));
  SINTER_RETURN_IF_ERROR(
      CheckRange("rows_per_m", static_cast<uint64_t>(rows_per_m), 1, kMaxRowsPerM));
  SINTER_RETURN_IF_ERROR(CheckRange("grid_rows", static_cast<uint64_t>(grid_rows), 0, kMaxExtent));
  return CheckLists(*this);
}

}  // namespace sinter
