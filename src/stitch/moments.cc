#include "src/stitch/moments.h"

#include "src/stitch/columns.h"
#include "src/stitch/pull.h"

namespace sinter {
namespace {

bool IsColumn(const StitchProgram& program, ValueId id) {
  return program.uses[static_cast<size_t>(id)] == ReduceUse::kColumn;
}

// The operand that `id` squares; -1: `id` is no square.
ValueId SquareRoot(const Chain& body, ValueId id) {
  const Op& op = body.op(id);
  if (op.kind == OpKind::kUnary && op.unary == UnaryKind::kSquare) return op.operands[0];
  const bool product = op.kind == OpKind::kBinary && op.binary == BinaryKind::kMul;
  return product && op.operands[0] == op.operands[1] ? op.operands[0] : -1;
}

bool OnlySpreads(const Op& op) {
  return op.kind == OpKind::kBroadcast || op.kind == OpKind::kReshape;
}

// The column mean that `id` broadcasts over the units of its own column; -1: none.
ValueId SpreadMean(const Chain& body, const StitchProgram& program, ValueId id) {
  IndexSpace space;
  const auto cut = CutUnits(program, body.op(id).type.dims);
  if (!cut.ok()) return -1;
  const IndexVar unit = space.AddLoop("u", program.units_symbolic ? 0 : program.units, 1);
  int64_t elements = 1;
  for (const int64_t extent : cut->element_dims) elements *= extent;
  const IndexVar element = space.AddLoop("i", elements, 2);
  Position at = PositionIn(*cut, unit, element, space);
  while (OnlySpreads(body.op(id))) {
    at = PullPosition(body, body.op(id), 0, at, space);
    id = body.op(id).operands[0];
  }
  const Op& mean = body.op(id);
  if (!IsColumn(program, id) || mean.reduce != ReduceKind::kMean) return -1;
  const Index column = space.Canonical(LinearIndex(mean.type.dims, at));
  const bool whole = program.whole && ColumnsOf(body, id) == 1;
  return whole || elements == 1 || column == Index::Of(element) ? id : -1;
}

}  // namespace

ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id) {
  const Op& op = body.op(id);
  if (!IsColumn(program, id) || op.type.dtype != DType::kF32) return -1;
  if (op.reduce != ReduceKind::kSum && op.reduce != ReduceKind::kMean) return -1;
  const ValueId difference = SquareRoot(body, op.operands[0]);
  if (difference < 0) return -1;
  const Op& sub = body.op(difference);
  if (sub.kind != OpKind::kBinary || sub.binary != BinaryKind::kSub) return -1;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const ValueId mean = SpreadMean(body, program, sub.operands[1 - side]);
    if (mean < 0 || body.op(mean).type.dtype != DType::kF32) continue;
    if (body.op(mean).operands[0] == sub.operands[side]) return mean;
  }
  return -1;
}

}  // namespace sinter
