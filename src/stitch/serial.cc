#include "src/stitch/serial.h"

#include <algorithm>
#include <set>

namespace sinter {
namespace {

constexpr int64_t kMostOfBatch = 1 << 20;  // multiply-adds in one batch

bool ReachesSerial(const Chain& body, const StitchProgram& program, ValueId id,
                   std::set<ValueId>& seen) {
  if (!seen.insert(id).second) return false;
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use == ReduceUse::kSerial) return true;
  if (use != ReduceUse::kNone) return false;
  const std::vector<ValueId>& operands = body.op(id).operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](ValueId operand) { return ReachesSerial(body, program, operand, seen); });
}

bool IsSerial(const Chain& body, const StitchProgram& program, const StitchLoop& loop) {
  bool serial = false;
  std::set<ValueId> seen;
  for (const StitchRoot& root : loop.roots) {
    if (root.kind == StitchRoot::kColumn) return false;
    serial |= ReachesSerial(body, program, WalkedValue(body, root), seen);
  }
  return serial;
}

}  // namespace

bool IsFineGrained(const Chain& body, const Op& matmul) {
  constexpr size_t kMatrix = 2;
  for (const ValueId operand : matmul.operands) {
    if (body.op(operand).type.dims.size() <= kMatrix) return false;
  }
  const int64_t factors = ReducedElements(body, matmul);
  const Dim rows = matmul.type.dims[matmul.type.dims.size() - kMatrix];
  const Dim columns = matmul.type.dims.back();
  if (factors < 1 || factors > kMostSerial || rows.symbolic || columns.symbolic) return false;
  return rows.value * factors <= kMostOfBatch / columns.value;
}

void MarkSerial(const Chain& body, StitchProgram& program) {
  const auto shares = [](const ChainOutput& output) { return output.alias_input >= 0; };
  if (std::any_of(body.outputs().begin(), body.outputs().end(), shares)) return;
  for (StitchPhase& phase : program.phases) {
    for (StitchLoop& loop : phase.loops) loop.serial = IsSerial(body, program, loop);
    for (StitchLoop& loop : phase.flat) loop.serial = IsSerial(body, program, loop);
  }
}

}  // namespace sinter
