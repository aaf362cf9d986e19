// The launch recipe of a kernel of products: tensor maps, arguments, grid.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/code/kernel_source.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

constexpr uint64_t kMapAlignment = 16;

// Rows of a matrix's TMA box. Where a pair of blocks shares a load, each block loads half.
uint32_t WeightBox(const ProductCode& code, const ProductTile& tile, Share share) {
  const Schedule& s = code.schedule;
  const MatrixProduct& first = code.sequence.front();
  if (first.rows.window.grouped()) {  // columns of one group
    return static_cast<uint32_t>(
        std::gcd(first.GroupColumns(), int64_t{tile.block_n / s.warpgroups_n}));
  }
  const bool io = code.sequence.layout() == Layout::kIO;
  return static_cast<uint32_t>((io ? s.block_k : tile.block_n / s.warpgroups_n) / TilesM(share));
}

uint32_t BoxRows(const ProductCode& code, Role role) {
  const Schedule& s = code.schedule;
  switch (role.kind) {
    case Role::kA: {
      if (code.sequence.front().HasTransposedRows()) {
        return static_cast<uint32_t>(s.block_k / TilesN(s.share));
      }
      const int lanes = RowOf(s).resident_bytes != nullptr ? s.warpgroups_m : 1;
      return static_cast<uint32_t>(s.block_m / TilesN(s.share) / lanes);
    }
    case Role::kC:
      return static_cast<uint32_t>(s.block_m);
    default:
      return role.product == 1 ? WeightBox(code, s.second, Share::kNone)
                               : WeightBox(code, s.first, s.share);
  }
}

// Makes a map of pixels one for im2col loads of a window: dims are {channels, width, height,
// images}.
void WalkPixels(const PixelWindow& window, const ProductBinding& binding, TensorMapTemplate* map) {
  const uint64_t pixel = map->stride_bytes[0];
  const auto width = static_cast<uint64_t>(window.width);
  const auto height = static_cast<uint64_t>(window.height);
  const Dim images =
      binding.constant_rows ? Dim::Constant(binding.rows / binding.rows_per_m) : Dim::M();
  map->dims = {map->dims[0], Dim::Constant(window.width), Dim::Constant(window.height), images};
  map->stride_bytes = {pixel, pixel * width, pixel * width * height};
  PixelWalk walk;
  for (int i = 0; i < 2; ++i) {
    const int axis = 1 - i;  // width first
    walk.lower[i] = static_cast<int32_t>(window.LowerCorner(axis));
    walk.upper[i] = static_cast<int32_t>(window.UpperCorner(axis));
    walk.strides[i] = static_cast<uint32_t>(window.conv.strides[axis]);
  }
  map->walk = walk;
}

// Makes a map of filters one that counts taps, so that no box has channels of two.
void CountTaps(const PixelWindow& window, Layout layout, TensorMapTemplate* map) {
  const Dim channels = Dim::Constant(window.GroupChannels());
  const Dim taps = Dim::Constant(window.taps[0] * window.taps[1]);
  const auto element = static_cast<uint64_t>(SizeOf(map->dtype));
  const auto depth = static_cast<uint64_t>(window.GroupChannels());
  const Dim columns = layout == Layout::kIO ? map->dims[0] : map->dims[1];
  const uint64_t stride = map->stride_bytes[0];
  if (layout == Layout::kIO) {
    map->dims = {columns, channels, taps};
    map->stride_bytes = {stride, stride * depth};
    map->box = {map->box[0], std::min<uint32_t>(map->box[1], kSubtileChannels), 1};
  } else {
    map->dims = {channels, taps, columns};
    map->stride_bytes = {element * depth, stride};
    map->box = {map->box[0], 1, map->box[1]};
  }
}

// Makes a map of weights one that permutes each 32 of their rows: row r of the matrix is the sum of
// 32 b + 8 q + 2 g + i, and a box has i first, then q, g and b. Strides need not ascend: in maps of
// heads that attention kernels use they do not either.
void PermuteRows(TensorMapTemplate* map) {
  const uint64_t row = map->stride_bytes[0];
  const int64_t sets = map->dims[1].value / kPermutedRows;
  map->dims = {map->dims[0], Dim::Constant(2), Dim::Constant(4), Dim::Constant(4),
               Dim::Constant(sets)};
  map->stride_bytes = {row, 8 * row, 2 * row, kPermutedRows * row};
  map->box = {map->box[0], 2, 4, 4, map->box[1] / kPermutedRows};
}

absl::StatusOr<const OperandBinding*> Bound(const ProductCode& code, const ProductBinding& binding,
                                            Role role) {
  const OperandBinding* operand = FindOperand(binding.operands, role);
  if (operand != nullptr) return operand;
  return Invalid("kernel has no operand ", NameOf(role, code.sequence.size()));
}

absl::StatusOr<TensorMapTemplate> MapOf(const ProductCode& code, const ProductBinding& binding,
                                        Role role) {
  SINTER_ASSIGN_OR_RETURN(const OperandBinding* operand, Bound(code, binding, role));
  const RoleShape shape = ShapeOf(code.sequence, role);
  const auto stride = static_cast<uint64_t>(operand->row_stride * SizeOf(shape.element));
  if (stride % kMapAlignment != 0 || operand->offset_bytes % kMapAlignment != 0) {
    return Invalid("operand ", NameOf(role, code.sequence.size()), ": row stride of ", stride,
                   " bytes and offset ", operand->offset_bytes, " must be multiples of ",
                   kMapAlignment);
  }
  TensorMapTemplate map;
  map.buffer = operand->buffer;
  map.offset_bytes = operand->offset_bytes;
  map.dtype = shape.element;
  const Dim launch = binding.constant_rows ? Dim::Constant(binding.rows) : Dim::M();
  // A code has no number of rows, which are the columns of rows that lie as columns.
  const bool turned = role == Role::kA && code.sequence.front().HasTransposedRows();
  const Dim of_k = shape.of_k ? Dim::M() : Dim::Constant(shape.rows);
  map.dims = {Dim::Constant(turned ? binding.rows : shape.columns),
              shape.of_launch ? launch : of_k};
  map.stride_bytes = {stride};
  map.box = {static_cast<uint32_t>(ElementOf(shape.element).swizzle_span), BoxRows(code, role)};
  map.swizzle = Swizzle::k128B;
  const bool weights = role == Role::kW || role == Role::kWUp;
  if (weights && PermutesColumns(code.sequence, code.schedule)) PermuteRows(&map);
  const Operand& rows = code.sequence.front().rows;
  if (rows.source != Source::kWindow) return map;
  if (role == Role::kA) WalkPixels(rows.window, binding, &map);
  if (role == Role::kW && rows.window.CountsTaps())
    CountTaps(rows.window, code.sequence.layout(), &map);
  return map;
}

}  // namespace

absl::StatusOr<ArgSlot> ProductPointer(const ProductCode& code, const ProductBinding& binding,
                                       Role role) {
  SINTER_ASSIGN_OR_RETURN(const OperandBinding* operand, Bound(code, binding, role));
  // A looped launch advances the operands that have a row for each of its rows.
  const RoleShape shape = ShapeOf(code.sequence, role);
  const bool rows = shape.of_launch && !binding.constant_rows;
  return PointerSlot({operand->buffer, operand->offset_bytes},
                     rows ? operand->row_stride * SizeOf(shape.element) : 0);
}

ArgSlot ConstantSlot(int64_t value) { return {ArgKind::kInt32, 0, 0, value}; }

ArgSlot RowsSlot(const ProductBinding& binding) {
  return binding.constant_rows ? ConstantSlot(binding.rows) : ArgSlot{ArgKind::kSymbolM};
}

absl::StatusOr<LaunchRecipe> ProductLaunch(const ProductCode& code, const ProductBinding& binding) {
  const Schedule& s = code.schedule;
  LaunchRecipe recipe;
  recipe.grid = {static_cast<uint32_t>(binding.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(ThreadsOf(s)), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.cluster), 1, 1};
  recipe.cooperative = IsCooperative(s);
  recipe.pdl = true;
  if (!binding.constant_rows) recipe.rows_per_m = binding.rows_per_m;
  for (Role role : ParametersOf(code).maps) {
    SINTER_ASSIGN_OR_RETURN(TensorMapTemplate map, MapOf(code, binding, role));
    recipe.args.push_back({ArgKind::kTensorMap, static_cast<int>(recipe.tensor_maps.size())});
    recipe.tensor_maps.push_back(std::move(map));
  }
  return recipe;
}

absl::StatusOr<LaunchRecipe> ProductRecipe(const ProductCode& code, const ProductBinding& binding) {
  const Schedule& s = code.schedule;
  SINTER_ASSIGN_OR_RETURN(LaunchRecipe recipe, ProductLaunch(code, binding));
  recipe.entry = EntryName(s);
  recipe.shared_bytes = static_cast<uint32_t>(SizesOf(code.sequence, s).shared_bytes);
  const KernelParameters parameters = ParametersOf(code);
  for (Role role : parameters.pointers) {
    SINTER_ASSIGN_OR_RETURN(ArgSlot slot, ProductPointer(code, binding, role));
    recipe.args.push_back(slot);
  }
  if (parameters.push) {
    recipe.args.push_back({ArgKind::kRoom});
    recipe.args.push_back({ArgKind::kPlan});
  }
  if (parameters.workspace) {
    recipe.args.push_back(PointerSlot({kWorkspaceBuffer, binding.flags_offset}, 0));
  }
  recipe.args.push_back(RowsSlot(binding));
  if (parameters.k) recipe.args.push_back({ArgKind::kSymbolM});
  return recipe;
}

}  // namespace sinter
