#include "src/product/role_shape.h"

namespace sinter {
namespace {

RoleShape WeightShape(const MatrixProduct& p) {
  const bool oi = p.weights.layout == Layout::kOI;
  return {oi ? p.n : p.k, oi ? p.k : p.n, false, p.weights.element};
}

DType ElementAt(const MatrixProduct& p, EpilogueOp op) {
  const EpilogueStep* step = p.epilogue.Find(op);
  return step == nullptr ? p.result : step->element;
}

}  // namespace

RoleShape ShapeOf(const ProductSequence& sequence, Role role) {
  const MatrixProduct &first = sequence.front(), &last = sequence.back();
  const int64_t rows = sequence.rows();
  switch (role) {
    case Role::kA:
      return {rows, first.k, true, first.rows.element};
    case Role::kC:
      return {rows, first.n, true, first.result};
    case Role::kOut:
      return {rows, last.n, true, last.result};
    case Role::kResidual:
      return {rows, last.n, true, ElementAt(last, EpilogueOp::kResidual)};
    case Role::kFactor1:
      return {rows, 1, true, ElementAt(first, EpilogueOp::kFactor)};
    case Role::kFactor2:
      return {rows, 1, true, ElementAt(last, EpilogueOp::kFactor)};
    case Role::kW1:
    case Role::kWUp:
      return WeightShape(first);
    case Role::kW2:
      return WeightShape(last);
    case Role::kB1:
    case Role::kBUp:
      return {0, first.n, false, ElementAt(first, EpilogueOp::kBias)};
    case Role::kB2:
      return {0, last.n, false, ElementAt(last, EpilogueOp::kBias)};
    case Role::kParts:
    case Role::kCount:
      break;
  }
  return {};
}

}  // namespace sinter
