#include "src/product/program_cost.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/stitch/precision.h"

namespace sinter {
OpCost CostOfProgram(const EpilogueProgram& program) {
  const std::vector<Precision> precisions = PrecisionsOf(*program.body, program.for_codes);
  const std::vector<bool> affine = program.InAffine();
  OpCost sum;
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const OpKind kind = program.body->ops()[id].kind;
    if (kind == OpKind::kInput || affine[id]) continue;  // counted with the product's terms
    const OpCost cost = CostOfOp(*program.body, precisions, static_cast<ValueId>(id));
    sum.issue += cost.issue;
    sum.special += cost.special;
  }
  return sum;
}

namespace {

// How many different functions with slow paths it calls.
int SlowFunctions(const EpilogueProgram& program) {
  const std::vector<Precision> precisions = PrecisionsOf(*program.body, program.for_codes);
  std::set<absl::string_view> names;
  for (size_t id = 0; id < program.body->ops().size(); ++id) {
    const Op& op = program.body->ops()[id];
    const Compound compound = CompoundAt(*program.body, precisions, static_cast<ValueId>(id));
    if (compound.function == Compound::kLog1p) names.insert(TraitsOf(UnaryKind::kLog1p).name);
    const bool computes = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary;
    if (computes && FormOf(TraitsOf(op), precisions[id]).slow) names.insert(TraitsOf(op).name);
  }
  return static_cast<int>(names.size());
}

// Most values of one element that are live at once, without its leaves, its constants and what is
// affine in the product: computed and still to be read.
int LiveValues(const EpilogueProgram& program) {
  const Chain& body = *program.body;
  std::vector<int> reads = body.UseCounts();
  const std::vector<bool> affine = program.InAffine();
  const auto counts = [&](size_t id) {
    const OpKind kind = body.ops()[id].kind;
    return kind != OpKind::kInput && kind != OpKind::kScalar && !affine[id];
  };
  int live = 0, most = 0;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    for (const ValueId operand : body.ops()[id].operands) {
      const auto of = static_cast<size_t>(operand);
      if (--reads[of] == 0 && counts(of)) --live;
    }
    if (counts(id)) most = std::max(most, ++live);
  }
  return most;
}

}  // namespace

int ScratchRegisters(const EpilogueProgram& program) {
  constexpr int kColumns = 2;     // that a thread computes together
  constexpr int kLiveAnyway = 6;  // values of a column for which registers are kept
  // Of functions with slow paths the compiler holds constants and values of all kinds. Two kinds
  // need no more than one: 104 sums beside a residual fit; of three, 64 did not.
  constexpr int kKindsTogether = 2, kKindRegisters = 48;
  const int more = kColumns * std::max(0, LiveValues(program) - kLiveAnyway);
  const int slow = SlowFunctions(program);
  if (slow == 0) return more;
  return more + kSlowPathRegisters + kKindRegisters * std::max(0, slow - kKindsTogether);
}

}  // namespace sinter
