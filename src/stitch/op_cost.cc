#include "src/stitch/op_cost.h"

namespace sinter {
namespace {

// Counted in the machine code of the device library's functions.
OpCost CostOfUnary(UnaryKind kind, Precision precision) {
  const bool exact = precision == Precision::kExact, beside = precision == Precision::kBesideOne;
  switch (kind) {
    case UnaryKind::kExp:
      return exact ? OpCost{7, 1} : OpCost{2, 1};
    case UnaryKind::kSigmoid:
      return exact ? OpCost{16, 2} : OpCost{5, 2};
    case UnaryKind::kTanh:
      return exact ? OpCost{18, 2} : beside ? OpCost{6, 2} : OpCost{1, 1};
    case UnaryKind::kLog:
      return exact ? OpCost{14, 0} : OpCost{2, 1};
    case UnaryKind::kErf:
      return beside ? OpCost{12, 2} : OpCost{22, 1};
    case UnaryKind::kCeilPow2:
      return {4, 0};
    case UnaryKind::kSqrt:
      return {8, 1};
    case UnaryKind::kRsqrt:
      return {3, 1};
    case UnaryKind::kReciprocal:
      return exact ? OpCost{8, 1} : OpCost{6, 1};
    case UnaryKind::kSin:
    case UnaryKind::kCos:
      return {30, 0};
    default:
      return {1, 0};
  }
}

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

OpCost CostOfBinary(const Chain& body, const Op& op, Precision precision) {
  if (op.binary == BinaryKind::kPow) return {40, 2};
  if (op.binary != BinaryKind::kDiv) return {1, 0};
  if (precision == Precision::kExact) return {10, 1};
  return SharesDivisor(body, op) ? OpCost{2, 1} : OpCost{7, 1};
}

OpCost CostOfCompound(Compound::Function function) {
  switch (function) {
    case Compound::kLog1p:
      return {30, 0};
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
      return CostOfUnary(op.unary, precision);
    case OpKind::kBinary:
      return CostOfBinary(body, op, precision);
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
    default:
      return {};
  }
}

}  // namespace sinter
