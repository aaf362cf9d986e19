#include "src/codegen/recipe.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/codegen/kernel_source.h"

namespace sinter {
namespace {

constexpr uint32_t kSubtileColumns = 64;  // 128 bytes: the span of the 128-byte swizzle
constexpr uint64_t kMapAlignment = 16;

// Extents of a matrix operand, contiguous dimension first, and the box that one TMA load takes: of
// what a pair of blocks shares, each loads a half.
struct MatrixShape {
  Dim columns, rows;
  uint32_t box_rows;
};

MatrixShape WeightShape(const KernelCode& code, int64_t in, int64_t out, const ProductTile& tile,
                        Share share) {
  const Schedule& s = code.schedule;
  const int blocks = TilesM(share);
  if (code.problem.layout == Layout::kIO) {
    return {Dim::Constant(out), Dim::Constant(in), static_cast<uint32_t>(s.block_k / blocks)};
  }
  return {Dim::Constant(in), Dim::Constant(out),
          static_cast<uint32_t>(tile.block_n / s.warpgroups_n / blocks)};
}

Dim RowsOf(const KernelBinding& binding) {
  return binding.constant_rows ? Dim::Constant(binding.rows) : Dim::M();
}

MatrixShape ShapeOf(const KernelCode& code, const KernelBinding& binding, Role role) {
  const FfnProblem& p = code.problem;
  const Schedule& s = code.schedule;
  const auto rows = [&s](Share share) { return static_cast<uint32_t>(s.block_m / TilesN(share)); };
  switch (role) {
    case Role::kA:
      return {Dim::Constant(p.k), RowsOf(binding), rows(s.share)};
    case Role::kC:
      return {Dim::Constant(p.n), RowsOf(binding), rows(s.second_share)};
    case Role::kW2:
      return WeightShape(code, p.n, p.l, s.second, s.second_share);
    default:
      return WeightShape(code, p.k, p.n, s.first, s.share);
  }
}

absl::StatusOr<TensorMapTemplate> MapOf(const KernelCode& code, const KernelBinding& binding,
                                        Role role) {
  const OperandBinding* operand = FindOperand(binding.operands, role);
  if (operand == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("kernel has no operand ", NameOf(role)));
  const uint64_t stride = static_cast<uint64_t>(operand->row_stride * SizeOf(code.problem.dtype));
  if (stride % kMapAlignment != 0 || operand->offset_bytes % kMapAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("operand ", NameOf(role), ": row stride of ", stride, " bytes and offset ",
                     operand->offset_bytes, " must be multiples of ", kMapAlignment));
  }
  const MatrixShape shape = ShapeOf(code, binding, role);
  TensorMapTemplate map;
  map.buffer = operand->buffer;
  map.offset_bytes = operand->offset_bytes;
  map.dtype = code.problem.dtype;
  map.dims = {shape.columns, shape.rows};
  map.stride_bytes = {stride};
  map.box = {kSubtileColumns, shape.box_rows};
  map.swizzle = Swizzle::k128B;
  return map;
}

// Of an element of what has a row for each of the result's; 0 of other pointers.
int64_t RowElementBytes(const FfnProblem& p, Role role) {
  switch (role) {
    case Role::kOut:
    case Role::kResidual:
      return SizeOf(p.dtype);
    case Role::kFactor1:
      return SizeOf(FactorType(p.scaling1.rows, p.dtype));
    case Role::kFactor2:
      return SizeOf(FactorType(p.scaling2.rows, p.dtype));
    default:
      return 0;
  }
}

absl::StatusOr<ArgSlot> PointerOf(const KernelCode& code, const KernelBinding& binding, Role role) {
  const OperandBinding* operand = FindOperand(binding.operands, role);
  if (operand == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("kernel has no operand ", NameOf(role)));
  ArgSlot slot;
  slot.kind = ArgKind::kPointer;
  slot.index = operand->buffer;
  slot.offset_bytes = operand->offset_bytes;
  // Only what has rows moves with those of a looped launch; C lies in the workspace and is reused.
  if (operand->buffer != kWorkspaceBuffer && !binding.constant_rows) {
    slot.int_value = operand->row_stride * RowElementBytes(code.problem, role);
  }
  return slot;
}

ArgSlot Slot(ArgKind kind, int index, uint64_t offset) {
  ArgSlot slot;
  slot.kind = kind;
  slot.index = index;
  slot.offset_bytes = offset;
  return slot;
}

}  // namespace

absl::StatusOr<LaunchRecipe> ProductRecipe(const KernelCode& code, const KernelBinding& binding) {
  const Schedule& s = code.schedule;
  LaunchRecipe recipe;
  recipe.entry = EntryName(s);
  recipe.grid = {static_cast<uint32_t>(binding.grid), 1, 1};
  recipe.block = {static_cast<uint32_t>(ThreadsOf(s)), 1, 1};
  recipe.cluster = {static_cast<uint32_t>(s.cluster), 1, 1};
  recipe.shared_bytes = static_cast<uint32_t>(SizesOf(code.problem, s).shared_bytes);
  recipe.cooperative = IsCooperative(s);
  recipe.pdl = true;
  const KernelParameters parameters = ParametersOf(code);
  for (Role role : parameters.maps) {
    SINTER_ASSIGN_OR_RETURN(TensorMapTemplate map, MapOf(code, binding, role));
    recipe.args.push_back(
        Slot(ArgKind::kTensorMap, static_cast<int>(recipe.tensor_maps.size()), 0));
    recipe.tensor_maps.push_back(std::move(map));
  }
  for (Role role : parameters.pointers) {
    SINTER_ASSIGN_OR_RETURN(ArgSlot slot, PointerOf(code, binding, role));
    recipe.args.push_back(slot);
  }
  if (parameters.workspace) {
    recipe.args.push_back(Slot(ArgKind::kPointer, kWorkspaceBuffer, binding.flags_offset));
  }
  ArgSlot rows = Slot(binding.constant_rows ? ArgKind::kInt32 : ArgKind::kSymbolM, 0, 0);
  if (binding.constant_rows) rows.int_value = binding.rows;
  recipe.args.push_back(rows);
  return recipe;
}

}  // namespace sinter
