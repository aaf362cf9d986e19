#include "src/stitch/op_cost.h"

namespace sinter {
namespace {

// Counted in the machine code of the device library's functions.
OpCost CostOfUnary(UnaryKind kind, bool exact) {
  switch (kind) {
    case UnaryKind::kExp:
      return exact ? OpCost{7, 1} : OpCost{2, 1};
    case UnaryKind::kSigmoid:
      return exact ? OpCost{16, 2} : OpCost{4, 2};
    case UnaryKind::kTanh:
      return exact ? OpCost{18, 2} : OpCost{1, 1};
    case UnaryKind::kLog:
      return exact ? OpCost{14, 0} : OpCost{2, 1};
    case UnaryKind::kErf:
      return exact ? OpCost{22, 1} : OpCost{12, 2};
    case UnaryKind::kCeilPow2:
      return {4, 0};
    case UnaryKind::kSqrt:
      return {8, 1};
    case UnaryKind::kRsqrt:
      return {3, 1};
    case UnaryKind::kReciprocal:
      return exact ? OpCost{8, 1} : OpCost{1, 1};
    case UnaryKind::kSin:
    case UnaryKind::kCos:
      return {30, 0};
    default:
      return {1, 0};
  }
}

OpCost CostOfBinary(BinaryKind kind, bool exact) {
  if (kind == BinaryKind::kDiv) return exact ? OpCost{10, 1} : OpCost{2, 1};
  if (kind == BinaryKind::kPow) return {40, 2};
  return {1, 0};
}

}  // namespace

OpCost CostOfOp(const Op& op, bool exact) {
  switch (op.kind) {
    case OpKind::kUnary:
      return CostOfUnary(op.unary, exact);
    case OpKind::kBinary:
      return CostOfBinary(op.binary, exact);
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
