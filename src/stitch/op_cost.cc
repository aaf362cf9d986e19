#include "src/stitch/op_cost.h"

namespace sinter {
namespace {

// A divisor of fewer elements than the quotient is prepared once for many of them, which then take
// two multiplications each.
bool SharesDivisor(const Chain& body, const Op& quotient) {
  ValueId id = quotient.operands[1];
  while (body.op(id).kind == OpKind::kBroadcast || body.op(id).kind == OpKind::kReshape) {
    if (body.op(id).kind == OpKind::kBroadcast) return true;
    id = body.op(id).operands[0];
  }
  return body.op(id).type.dims != quotient.type.dims;
}

OpCost CostOfElementwise(const Chain& body, const Op& op, Precision precision) {
  const bool quotient = op.kind == OpKind::kBinary && op.binary == BinaryKind::kDiv;
  if (quotient && precision != Precision::kExact && SharesDivisor(body, op)) return {2, 1};
  const DeviceForm& form = FormOf(TraitsOf(op), precision);
  return {form.issue, form.special};
}

OpCost CostOfCompound(Compound::Function function) {
  const DeviceForm& log1p = TraitsOf(UnaryKind::kLog1p).exact;
  switch (function) {
    case Compound::kLog1p:
      return {log1p.issue, log1p.special};
    case Compound::kOnePlusTanh:
      return {5, 2};
    default:
      return {7, 2};
  }
}

}  // namespace

OpCost CostOfOp(const Chain& body, const std::vector<Precision>& precisions, ValueId id) {
  const Op& op = body.op(id);
  const Precision precision = precisions[static_cast<size_t>(id)];
  if (precision == Precision::kTaken) return {};
  const Compound compound = CompoundAt(body, precisions, id);
  if (compound.function != Compound::kNone) return CostOfCompound(compound.function);
  switch (op.kind) {
    case OpKind::kUnary:
    case OpKind::kBinary:
      return CostOfElementwise(body, op, precision);
    case OpKind::kInput:  // conversion to the type of arithmetic
    case OpKind::kIota:
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kCast:
    case OpKind::kReduce:
    case OpKind::kMatmul:  // one factor
      return {1, 0};
    case OpKind::kConcat:
      return {2, 0};
    case OpKind::kGather:  // two comparisons at once, the position, the choice
      return {3, 0};
    default:
      return {};
  }
}

}  // namespace sinter
