#include "src/stitch/read_back.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sinter {
namespace {

bool IsElementwise(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kSelect ||
         op.kind == OpKind::kCast;
}

// What the units of a phase read of inputs and of results that are read back.
class PhaseReads {
 public:
  PhaseReads(const Chain& body, const StitchProgram& program, const StitchPhase& phase,
             const std::vector<StitchBack>& back)
      : body_(body), program_(program), back_(back) {
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (root.kind == StitchRoot::kStore && IsJoined(root.value)) continue;
        const ValueId walked = WalkedValue(body, root);
        Visit(walked, body.op(walked).type.dims == DimsOfRoot(body, root));
      }
    }
  }

  int64_t bytes() const { return bytes_; }
  // Whether the phase needs `value`, and at its own elements alone.
  bool NeedsOwn(ValueId value) const {
    const auto own = visited_.find({value, true});
    return own != visited_.end() && visited_.count({value, false}) == 0;
  }

 private:
  bool IsJoined(ValueId id) const {
    const ReduceUse use = program_.uses[static_cast<size_t>(id)];
    return use != ReduceUse::kNone && use != ReduceUse::kSerial;
  }

  // `own`: at the elements of the loop.
  void Visit(ValueId id, bool own) {
    if (IsJoined(id) || !visited_.insert({id, own}).second) return;
    const bool again = visited_.count({id, !own}) > 0;
    const Op& op = body_.op(id);
    const bool back = std::any_of(back_.begin(), back_.end(),
                                  [&](const StitchBack& one) { return one.value == id; });
    if (back || op.kind == OpKind::kInput) {
      if (!again) bytes_ += BytesOf(op);
      return;
    }
    const bool same = own && IsElementwise(op);
    for (const ValueId operand : op.operands) {
      Visit(operand, same && body_.op(operand).type.dims == op.type.dims);
    }
  }

  // M counts as one row.
  static int64_t BytesOf(const Op& op) {
    int64_t bytes = SizeOf(op.type.dtype);
    for (size_t i = 0; i < op.type.dims.size(); ++i) {
      const bool repeated = op.kind == OpKind::kInput && op.strides[i].value == 0;
      if (!op.type.dims[i].symbolic && !repeated) bytes *= op.type.dims[i].value;
    }
    return bytes;
  }

  const Chain& body_;
  const StitchProgram& program_;
  const std::vector<StitchBack>& back_;
  std::set<std::pair<ValueId, bool>> visited_;
  int64_t bytes_ = 0;
};

// Stored by units, element by element, where no input lies.
bool MayBeReadBack(const Chain& body, const StitchRoot& root) {
  return root.kind == StitchRoot::kStore && root.spread == 1 &&
         IsElementwise(body.op(root.value)) &&
         body.outputs()[static_cast<size_t>(root.output)].alias_input < 0;
}

bool HasLoopOf(const StitchPhase& phase, int64_t elements) {
  return std::any_of(phase.loops.begin(), phase.loops.end(),
                     [&](const StitchLoop& loop) { return loop.elements == elements; });
}

}  // namespace

void ReadBack(const Chain& body, StitchProgram& program) {
  const bool shared = std::count(program.uses.begin(), program.uses.end(), ReduceUse::kSerial) > 0;
  if (shared || !program.handed.empty()) return;
  std::map<ValueId, std::pair<int, int64_t>> stored;  // output and its loop's elements
  for (StitchPhase& phase : program.phases) {
    for (const auto& [value, from] : stored) {
      if (!HasLoopOf(phase, from.second)) continue;
      const PhaseReads without(body, program, phase, phase.back);
      if (!without.NeedsOwn(value)) continue;
      std::vector<StitchBack> more = phase.back;
      more.push_back({value, from.first});
      if (PhaseReads(body, program, phase, more).bytes() < without.bytes()) phase.back = more;
    }
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (MayBeReadBack(body, root)) stored[root.value] = {root.output, loop.elements};
      }
    }
  }
}

const StitchBack* BackOf(const StitchPhase& phase, ValueId value) {
  for (const StitchBack& back : phase.back) {
    if (back.value == value) return &back;
  }
  return nullptr;
}

bool IsReadBack(const StitchProgram& program, size_t phase, int output) {
  return std::any_of(program.phases.begin() + static_cast<std::ptrdiff_t>(phase) + 1,
                     program.phases.end(), [&](const StitchPhase& later) {
                       return std::any_of(
                           later.back.begin(), later.back.end(),
                           [&](const StitchBack& back) { return back.output == output; });
                     });
}

}  // namespace sinter
