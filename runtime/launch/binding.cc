#include "runtime/launch/binding.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kAlignment = 16;

std::string BufferName(int index) {
  return index == kWorkspaceBuffer ? "the workspace" : absl::StrCat("buffer ", index);
}

absl::StatusOr<DevicePtr> BufferAt(const BufferList& buffers, int index) {
  if (index != kWorkspaceBuffer && (index < 0 || index >= buffers.count)) {
    return Invalid("buffer ", index, " does not exist, the launch gives ", buffers.count);
  }
  const DevicePtr pointer = index == kWorkspaceBuffer ? buffers.workspace : buffers.pointers[index];
  if (pointer == 0) return Invalid(BufferName(index), " is null");
  if (pointer % kAlignment != 0) {
    return Invalid(BufferName(index), ": address 0x", absl::Hex(pointer),
                   " is not 16-byte aligned");
  }
  return pointer;
}

absl::StatusOr<BoundArg> BindArg(const ArgSlot& slot, const BufferList& buffers) {
  BoundArg arg;
  arg.kind = slot.kind;
  switch (slot.kind) {
    case ArgKind::kTensorMap:
      arg.map = slot.index;
      break;
    case ArgKind::kPointer: {
      SINTER_ASSIGN_OR_RETURN(const DevicePtr pointer, BufferAt(buffers, slot.index));
      arg.value = pointer + slot.offset_bytes;
      arg.row_bytes = static_cast<uint64_t>(slot.int_value);
      break;
    }
    case ArgKind::kSymbolM:
    case ArgKind::kFirstRow:
    case ArgKind::kBytes:
      break;
    case ArgKind::kRoom:
      if (buffers.room == 0) return Invalid("there is no room of a group");
      arg.value = buffers.room;
      break;
    case ArgKind::kPlan:
      arg.value = buffers.plan;
      break;
    case ArgKind::kInt32: {
      const int32_t value = static_cast<int32_t>(slot.int_value);
      std::memcpy(&arg.value, &value, sizeof(value));
      break;
    }
    case ArgKind::kFloat32: {
      const float value = static_cast<float>(slot.float_value);
      std::memcpy(&arg.value, &value, sizeof(value));
      break;
    }
  }
  return arg;
}

absl::StatusOr<BoundMap> BindMap(const Driver& driver, const TensorMapTemplate& map,
                                 const BufferList& buffers) {
  BoundMap out;
  SINTER_ASSIGN_OR_RETURN(const DevicePtr buffer, BufferAt(buffers, map.buffer));
  SINTER_ASSIGN_OR_RETURN(out.prepared, PrepareTensorMap(map, buffer));
  if (out.prepared.m_dim < 0) {
    SINTER_RETURN_IF_ERROR(EncodeTensorMap(driver, out.prepared, 0, 0, &out.encoded));
  }
  return out;
}

}  // namespace

CUlaunchConfig ConfigOf(const LaunchRecipe& recipe) {
  CUlaunchConfig config{};
  config.gridDimX = recipe.grid[0];
  config.gridDimY = recipe.grid[1];
  config.gridDimZ = recipe.grid[2];
  config.blockDimX = recipe.block[0];
  config.blockDimY = recipe.block[1];
  config.blockDimZ = recipe.block[2];
  config.sharedMemBytes = recipe.shared_bytes;
  return config;
}

CUlaunchAttribute ClusterAttribute(const LaunchRecipe& recipe) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = recipe.cluster[0];
  attribute.value.clusterDim.y = recipe.cluster[1];
  attribute.value.clusterDim.z = recipe.cluster[2];
  return attribute;
}

absl::StatusOr<std::unique_ptr<Binding>> MakeBinding(const Driver& driver, CUfunction function,
                                                     const LaunchRecipe& recipe,
                                                     const BufferList& buffers) {
  auto binding = std::make_unique<Binding>();
  binding->function = function;
  binding->config = ConfigOf(recipe);
  binding->cluster = ClusterAttribute(recipe);
  binding->has_cluster = BlocksPerCluster(recipe) > 1;
  binding->cooperative = recipe.cooperative;
  binding->pdl = recipe.pdl;
  size_t row_maps = 0;
  binding->rows_per_m = recipe.rows_per_m;
  binding->grid_rows = recipe.grid_rows;
  for (size_t i = 0; i < recipe.tensor_maps.size(); ++i) {
    absl::StatusOr<BoundMap> map = BindMap(driver, recipe.tensor_maps[i], buffers);
    if (!map.ok()) return Annotate(map.status(), absl::StrCat("tensor map ", i));
    if (map->prepared.m_dim >= 0) map->row_map = row_maps++;
    binding->maps.push_back(*map);
  }
  if (row_maps > 0) binding->row_maps.Resize(row_maps);
  for (size_t i = 0; i < recipe.args.size(); ++i) {
    absl::StatusOr<BoundArg> arg = BindArg(recipe.args[i], buffers);
    if (!arg.ok()) return Annotate(arg.status(), absl::StrCat("argument ", i));
    if (arg->kind == ArgKind::kBytes) {
      arg->map = static_cast<int>(binding->bytes.size());
      binding->bytes.push_back(recipe.args[i].bytes);
    }
    binding->args.push_back(*arg);
  }
  return binding;
}

uint32_t BlocksFor(const Binding& bound, int64_t m) {
  const int64_t blocks = bound.config.gridDimX, rows = bound.grid_rows;
  if (rows == 0 || m <= rows) return bound.config.gridDimX;
  const int64_t cluster = bound.has_cluster ? bound.cluster.value.clusterDim.x : 1;
  const int64_t most = std::numeric_limits<int32_t>::max() / cluster;
  // Kernels take further turns where even so many do not suffice.
  return static_cast<uint32_t>(std::min(CeilDiv(blocks / cluster * m, rows), most) * cluster);
}

namespace {

void* Address(const void* value) { return const_cast<void*>(value); }

// The maps that depend on M: kept from an earlier launch, or encoded in the frame.
absl::StatusOr<const CUtensorMap*> MapsOf(const Driver& driver, const Binding& bound, int64_t m,
                                          int64_t row_offset, Frame* frame) {
  const CUtensorMap* const kept = row_offset == 0 ? bound.row_maps.Find(m) : nullptr;
  if (kept != nullptr) return kept;
  for (const BoundMap& map : bound.maps) {
    if (map.prepared.m_dim < 0) continue;
    const int64_t unit = map.prepared.im2col ? 1 : bound.rows_per_m;  // images, or rows
    SINTER_RETURN_IF_ERROR(EncodeTensorMap(driver, map.prepared, m * unit, row_offset * unit,
                                           &frame->maps[map.row_map]));
  }
  if (row_offset == 0) bound.row_maps.Keep(m, frame->maps);
  return frame->maps;
}

}  // namespace

absl::Status FillParams(const Driver& driver, const Binding& bound, int64_t m, int64_t row_offset,
                        Frame* frame) {
  const int64_t per_m = bound.rows_per_m, most = std::numeric_limits<int32_t>::max() / per_m;
  const int64_t furthest = (int64_t{1} << 40) / per_m - 1;  // addresses have 64 bits
  if (m < 0 || m > most || row_offset < 0 || row_offset > furthest) {
    return Invalid("m ", m, " and row offset ", row_offset, " must lie in 0..", most, " and 0..",
                   furthest);
  }
  frame->m = static_cast<int32_t>(m * per_m);
  // Rows are less than 2^31 where a kernel counts them.
  frame->first_row = static_cast<int32_t>(row_offset * per_m);
  const CUtensorMap* row_maps = nullptr;
  if (bound.row_maps.count() > 0) {
    SINTER_ASSIGN_OR_RETURN(row_maps, MapsOf(driver, bound, m, row_offset, frame));
  }
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const BoundArg& arg = bound.args[i];
    if (arg.kind == ArgKind::kTensorMap) {
      const BoundMap& map = bound.maps[arg.map];
      frame->params[i] = Address(map.prepared.m_dim < 0 ? &map.encoded : row_maps + map.row_map);
    } else if (arg.kind == ArgKind::kSymbolM) {
      frame->params[i] = &frame->m;
    } else if (arg.kind == ArgKind::kFirstRow) {
      frame->params[i] = &frame->first_row;
    } else if (arg.kind == ArgKind::kBytes) {
      frame->params[i] = Address(bound.bytes[arg.map].data());
    } else {
      frame->pointers[i] = arg.value + arg.row_bytes * static_cast<uint64_t>(row_offset * per_m);
      frame->params[i] = &frame->pointers[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace sinter
