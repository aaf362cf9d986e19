#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/operand.h"
#include "src/product/sequence.h"

namespace sinter {
namespace {

RoleShape WeightShape(const MatrixProduct& p) {
  const bool oi = p.weights.layout == Layout::kOI;
  RoleShape shape = {oi ? p.n : p.k, oi ? p.k : p.n, false, p.weights.element};
  shape.of_k = p.k_is_m;
  return shape;
}

// One number is a vector of one column.
RoleShape LeafShape(const ProductSequence& sequence, Role role) {
  const int number = role == Role::kResidual ? sequence.size() - 1 : role.product;
  const int64_t n = sequence[number].n;
  for (const Leaf& leaf : sequence[number].Leaves(number)) {
    if (leaf.role != role) continue;
    switch (leaf.kind) {
      case LeafKind::kColumn:
        return {0, n, false, leaf.element};
      case LeafKind::kNumber:
        return {0, 1, false, leaf.element};
      default:
        return {sequence.rows(), leaf.kind == LeafKind::kRow ? 1 : n, true, leaf.element,
                sequence.rows_per_m};
    }
  }
  return {};
}

// One number is a vector of one column.
RoleShape RowScaleShape(const ProductSequence& sequence) {
  const MatrixProduct& p = sequence.front();
  if (p.rows.scales.kind == ScaleKind::kTensor) return {0, 1, false, DType::kF32};
  const Scales& scales = p.rows.scales;
  const bool blocks = scales.kind == ScaleKind::kBlock;
  RoleShape shape = {sequence.rows(), blocks ? p.k / kScaleBlock : 1, true, DType::kF32,
                     sequence.rows_per_m};
  if (blocks && scales.strided()) shape.column_stride = scales.group_stride;
  shape.of_m = scales.of_m;
  return shape;
}

RoleShape WeightScaleShape(const MatrixProduct& p) {
  const Scales& scales = p.weights.scales;
  const bool blocks = scales.kind == ScaleKind::kBlock;
  RoleShape shape = {0, scales.kind == ScaleKind::kTensor ? 1 : p.n, false, scales.element};
  if (blocks) shape = {CeilDiv(p.n, kScaleBlock), p.k / kScaleBlock, false, DType::kF32};
  if (scales.strided()) shape.column_stride = blocks ? scales.group_stride : scales.row_stride;
  return shape;
}

// Pixels in their memory layout, or rows, which may lie as columns.
RoleShape RowsShape(const ProductSequence& sequence) {
  const MatrixProduct& p = sequence.front();
  const PixelWindow& w = p.rows.window;
  if (p.HasTransposedRows()) {
    RoleShape shape = {p.k, sequence.rows(), false, p.rows.element};
    shape.of_k = p.k_is_m;
    return shape;
  }
  if (p.rows.source != Source::kWindow) {
    return {sequence.rows(), p.k, true, p.rows.element, sequence.rows_per_m};
  }
  const int64_t pixels = w.height * w.width;
  return {sequence.m * pixels, w.channels, true, p.rows.element, pixels};
}

const char* BareName(Role::Kind kind) {
  constexpr const char* kNames[] = {
      "w",         "w_up",        "bias", "bias_up",     "factor",   "scale_w",
      "scale_up",  "leaf",        "a",    "scale_a",     "residual", "out",
      "scale_out", "given_scale", "c",    "partial_out", "aux"};
  return kNames[kind];
}

// A kernel has one operand of these kinds for a gate-up pair.
bool IsNumbered(Role::Kind kind) {
  return kind < Role::kA && kind != Role::kWUp && kind != Role::kBiasUp && kind != Role::kScaleUp;
}

}  // namespace

int64_t ScaleRowStride(const ProductSequence& sequence, Role role) {
  const RoleShape shape = ShapeOf(sequence, role);
  const MatrixProduct& p = sequence[role.product];
  const Scales& scales = role == Role::kScaleA ? p.rows.scales : p.weights.scales;
  if (shape.rows == 0) return 0;
  return role != Role::kScaleOut && scales.strided() ? scales.row_stride : shape.columns;
}

RoleShape ShapeOf(const ProductSequence& sequence, Role role) {
  const MatrixProduct &first = sequence.front(), &last = sequence.back();
  const MatrixProduct& own = sequence[role.product];
  const int64_t rows = sequence.rows(), per_m = sequence.rows_per_m;
  switch (role.kind) {
    case Role::kW:
    case Role::kWUp:
      return WeightShape(own);
    case Role::kBias:
    case Role::kBiasUp:
    case Role::kFactor:
    case Role::kLeaf:
    case Role::kResidual:
      return LeafShape(sequence, role);
    case Role::kScaleW:
    case Role::kScaleUp:
      return WeightScaleShape(own);
    case Role::kA:
      return RowsShape(sequence);
    case Role::kScaleA:
      return RowScaleShape(sequence);
    case Role::kC:
      return {rows, first.n, true, first.result, per_m};
    case Role::kOut:
      return {rows, last.n, true, last.result, per_m};
    case Role::kAux:
      if (role.leaf >= last.AuxResults()) return {};
      return {rows, last.n, true, last.epilogue.program.AuxType(role.leaf), per_m};
    case Role::kScaleOut:
      return {rows, last.n / kScaleBlock, true, DType::kF32, per_m};
    case Role::kGivenScale:
      return {0, 1, false, DType::kF32};
    case Role::kPartialOut:
      break;
  }
  return {};
}

std::string NameOf(Role role, int products) {
  std::string name = BareName(role.kind);
  if (role.kind == Role::kAux) absl::StrAppend(&name, role.leaf + 1);
  if (role.kind == Role::kLeaf) absl::StrAppend(&name, role.leaf + 1, products > 1 ? "_" : "");
  if (products > 1 && IsNumbered(role.kind)) absl::StrAppend(&name, role.product + 1);
  return name;
}

std::string FieldOf(Role role) {
  return NameOf(role, role.kind == Role::kLeaf && role.product == 0 ? 1 : 2);
}

const OperandBinding* FindOperand(const std::vector<OperandBinding>& operands, Role role) {
  for (const OperandBinding& operand : operands) {
    if (operand.role == role) return &operand;
  }
  return nullptr;
}

}  // namespace sinter
