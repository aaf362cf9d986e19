#include "src/stitch/exact_ops.h"

#include <algorithm>
#include <cmath>

namespace sinter {
namespace {

ValueId BehindSpreads(const Chain& body, ValueId id) {
  while (body.op(id).kind == OpKind::kBroadcast || body.op(id).kind == OpKind::kReshape) {
    id = body.op(id).operands[0];
  }
  return id;
}

bool IsReduction(const Op& op, ReduceKind kind) {
  return op.kind == OpKind::kReduce && op.reduce == kind;
}

// A sum of exp(x - the largest x): at least 1, of terms of at most 1.
bool SumsAboutLargest(const Chain& body, const Op& sum) {
  if (!IsReduction(sum, ReduceKind::kSum)) return false;
  const Op& exp = body.op(sum.operands[0]);
  if (exp.kind != OpKind::kUnary || exp.unary != UnaryKind::kExp) return false;
  const Op& sub = body.op(exp.operands[0]);
  if (sub.kind != OpKind::kBinary || sub.binary != BinaryKind::kSub) return false;
  const Op& largest = body.op(BehindSpreads(body, sub.operands[1]));
  return IsReduction(largest, ReduceKind::kMax) && largest.operands[0] == sub.operands[0] &&
         largest.axes == sum.axes;
}

// 1 + erf(x), or -1 + erf(x).
bool AddsErfToOne(const Chain& body, const Op& add, ValueId operand) {
  const Op& erf = body.op(operand);
  if (erf.kind != OpKind::kUnary || erf.unary != UnaryKind::kErf) return false;
  if (add.kind != OpKind::kBinary || add.binary != BinaryKind::kAdd) return false;
  return std::any_of(add.operands.begin(), add.operands.end(), [&](ValueId other) {
    const Op& one = body.op(BehindSpreads(body, other));
    return one.kind == OpKind::kScalar && std::fabs(one.scalar) == 1;
  });
}

// The quotients that codes of 8 bits are multiplied by before they are rounded, once a row: a
// quotient that is off by a step turns ties, which are many, to the wrong side.
void MarkDivisorsOfCodes(const Chain& body, std::vector<bool>* exact) {
  for (const Op& cast : body.ops()) {
    if (cast.kind != OpKind::kCast || !IsCode(cast.type.dtype)) continue;
    const Op& mul = body.op(BehindSpreads(body, cast.operands[0]));
    if (mul.kind != OpKind::kBinary || mul.binary != BinaryKind::kMul) continue;
    for (const ValueId operand : mul.operands) {
      const ValueId id = BehindSpreads(body, operand);
      const Op& op = body.op(id);
      const bool quotient = (op.kind == OpKind::kBinary && op.binary == BinaryKind::kDiv) ||
                            (op.kind == OpKind::kUnary && op.unary == UnaryKind::kReciprocal);
      if (quotient && op.type.dims != mul.type.dims) (*exact)[static_cast<size_t>(id)] = true;
    }
  }
}

}  // namespace

std::vector<bool> ExactOps(const Chain& body) {
  std::vector<bool> exact(body.ops().size()), share(body.ops().size());
  for (const ChainOutput& output : body.outputs()) {
    if (body.op(output.value).type.dtype == DType::kF32) {
      exact[static_cast<size_t>(output.value)] = true;
    }
  }
  MarkDivisorsOfCodes(body, &exact);
  for (size_t id = body.ops().size(); id-- > 0;) {
    if (!exact[id] && !share[id]) continue;
    const Op& op = body.op(static_cast<ValueId>(id));
    for (const ValueId operand : op.operands) {
      const bool part =
          exact[id] && (SumsAboutLargest(body, op) || AddsErfToOne(body, op, operand));
      (part ? share : exact)[static_cast<size_t>(operand)] = true;
    }
  }
  return exact;
}

}  // namespace sinter
