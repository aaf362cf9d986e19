#include "src/product/program_cost.h"

#include <vector>

#include "src/stitch/precision.h"

namespace sinter {
namespace {

bool IsSlow(const Op& op, Precision precision) {
  const bool exact = precision == Precision::kExact;
  if (op.kind == OpKind::kBinary) {
    return op.binary == BinaryKind::kPow || (exact && op.binary == BinaryKind::kDiv);
  }
  if (op.kind != OpKind::kUnary) return false;
  switch (op.unary) {
    case UnaryKind::kSqrt:
    case UnaryKind::kSin:
    case UnaryKind::kCos:
    case UnaryKind::kLog1p:
    case UnaryKind::kExpm1:
      return true;
    case UnaryKind::kErf:
      return precision != Precision::kBesideOne;
    case UnaryKind::kTanh:
    case UnaryKind::kLog:
    case UnaryKind::kSigmoid:
    case UnaryKind::kReciprocal:
      return exact;
    default:
      return false;
  }
}

}  // namespace

OpCost CostOfProgram(const EpilogueProgram& program) {
  const std::vector<Precision> precisions = PrecisionsOf(*program.body);
  OpCost sum;
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const OpKind kind = program.body->ops()[id].kind;
    if (kind == OpKind::kInput) continue;  // counted with the product's terms
    const OpCost cost = CostOfOp(*program.body, precisions, static_cast<ValueId>(id));
    sum.issue += cost.issue;
    sum.special += cost.special;
  }
  return sum;
}

bool HasSlowPaths(const EpilogueProgram& program) {
  const std::vector<Precision> precisions = PrecisionsOf(*program.body);
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const Op& op = program.body->ops()[id];
    const Compound compound = CompoundAt(*program.body, precisions, static_cast<ValueId>(id));
    if (compound.function == Compound::kLog1p || IsSlow(op, precisions[id])) return true;
  }
  return false;
}

}  // namespace sinter
