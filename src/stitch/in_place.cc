#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/stitch/phases.h"

namespace sinter {
namespace {

class Settler {
 public:
  Settler(const Chain& body, StitchProgram& program, const NeedsOfRoot& needs_of)
      : body_(body), program_(program), needs_of_(needs_of) {}

  absl::Status Run() {
    for (size_t phase = 0; phase < program_.phases.size(); ++phase) {
      for (const bool flat : {false, true}) {
        const std::vector<StitchLoop> loops = Loops(phase, flat);
        for (const StitchLoop& loop : loops) {
          for (const StitchRoot& root : loop.roots) {
            if (SharedInput(root) < 0 || loop.apart >= 0) continue;
            SINTER_RETURN_IF_ERROR(Settle(phase, flat, loop, root));
          }
        }
        for (StitchLoop& loop : Loops(phase, flat)) SINTER_RETURN_IF_ERROR(Order(loop));
      }
    }
    return absl::OkStatus();
  }

 private:
  std::vector<StitchLoop>& Loops(size_t phase, bool flat) {
    return flat ? program_.phases[phase].flat : program_.phases[phase].loops;
  }

  ValueId SharedInput(const StitchRoot& root) const {
    if (root.kind != StitchRoot::kStore && root.kind != StitchRoot::kScatter) return -1;
    const int32_t alias = body_.outputs()[static_cast<size_t>(root.output)].alias_input;
    return alias < 0 ? -1 : body_.input(alias);
  }

  absl::Status Refuse(const StitchRoot& root) const {
    return FailedPrecondition(
        "op ", root.value, " (", NameOf(body_.op(root.value)), "): output ", root.output,
        " shares the buffer of an input that is read after it: leave its alias off");
  }

  // Whether `root` stores what scatter `store` leaves: no element of both is stored.
  static bool IsLeftBy(const StitchRoot& store, const StitchRoot& root) {
    return store.kind == StitchRoot::kScatter && root.kind == StitchRoot::kStore &&
           root.output == store.output;
  }

  // Whether `reader` reads `input`; refuses a read at another element than `stored`.
  absl::StatusOr<bool> ReadsThere(const StitchRoot& store, const Index& stored,
                                  const StitchRoot& reader) {
    const auto& reads = needs_of_(reader).reads;
    const auto found = reads.find(SharedInput(store));
    if (found == reads.end()) return false;
    const bool scatters = store.kind == StitchRoot::kScatter;
    if (!scatters && found->second == std::set<Index>{stored}) return true;
    return Refuse(store);
  }

  absl::Status Settle(size_t phase, bool flat, const StitchLoop& loop, const StitchRoot& store) {
    const Index& stored = needs_of_(store).place;
    int level = loop.level;
    for (size_t p = phase; p < program_.phases.size(); ++p) {
      for (const bool other_flat : {false, true}) {
        for (const StitchLoop& other : Loops(p, other_flat)) {
          if (other.apart >= 0) continue;
          const bool same_threads =
              p == phase && other_flat == flat && other.elements == loop.elements;
          for (const StitchRoot& root : other.roots) {
            if (IsLeftBy(store, root)) continue;
            SINTER_ASSIGN_OR_RETURN(const bool reads, ReadsThere(store, stored, root));
            if (reads && !same_threads) return Refuse(store);
            if (reads) level = std::max(level, other.level);
          }
        }
      }
    }
    if (level > loop.level) Move(Loops(phase, flat), loop, store, level);
    return absl::OkStatus();
  }

  static bool Same(const StitchRoot& a, const StitchRoot& b) {
    return a.kind == b.kind && a.value == b.value && a.output == b.output;
  }

  static void Move(std::vector<StitchLoop>& loops, const StitchLoop& from, const StitchRoot& store,
                   int level) {
    for (StitchLoop& loop : loops) {
      if (loop.elements != from.elements || loop.symbolic != from.symbolic) continue;
      if (loop.level == level) loop.roots.push_back(store);
      if (loop.level != from.level) continue;
      loop.roots.erase(std::remove_if(loop.roots.begin(), loop.roots.end(),
                                      [&](const StitchRoot& r) { return Same(r, store); }),
                       loop.roots.end());
    }
    loops.erase(std::remove_if(loops.begin(), loops.end(),
                               [](const StitchLoop& loop) { return loop.roots.empty(); }),
                loops.end());
  }

  // Puts readers of an input before the store into its buffer; keeps the order otherwise.
  absl::Status Order(StitchLoop& loop) {
    std::vector<StitchRoot> left = loop.roots, ordered;
    const auto waits = [&](const StitchRoot& store) {
      return std::any_of(left.begin(), left.end(), [&](const StitchRoot& reader) {
        return &reader != &store && needs_of_(reader).reads.count(SharedInput(store)) > 0;
      });
    };
    while (!left.empty()) {
      const auto next = std::find_if_not(left.begin(), left.end(), waits);
      if (next == left.end()) return Refuse(loop.roots.back());
      ordered.push_back(*next);
      left.erase(next);
    }
    loop.roots = std::move(ordered);
    return absl::OkStatus();
  }

  const Chain& body_;
  StitchProgram& program_;
  const NeedsOfRoot& needs_of_;
};

}  // namespace

bool WritesInPlace(const Chain& chain, const ChainOutput& output) {
  const Op& op = chain.op(output.value);
  return op.kind == OpKind::kScatter && output.alias_input >= 0 &&
         chain.input(output.alias_input) == op.operands[0];
}

bool WritesInPlace(const Chain& chain, ValueId value) {
  return chain.op(value).kind == OpKind::kScatter &&
         std::any_of(chain.outputs().begin(), chain.outputs().end(), [&](const ChainOutput& out) {
           return out.value == value && WritesInPlace(chain, out);
         });
}

absl::Status SettleInPlace(const Chain& body, StitchProgram& program, const NeedsOfRoot& needs_of) {
  return SharesBuffers(body) ? Settler(body, program, needs_of).Run() : absl::OkStatus();
}

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
        if (root.kind == StitchRoot::kStore && IsJoined(program, root.value)) continue;
        const ValueId walked = WalkedValue(body, root);
        Visit(walked, body.op(walked).type.dims == DimsOfRoot(body, root));
      }
    }
  }

  int64_t bytes() const { return bytes_; }
  // Whether the phase needs `value`, and only at its own elements.
  bool NeedsOwn(ValueId value) const {
    const auto own = visited_.find({value, true});
    return own != visited_.end() && visited_.count({value, false}) == 0;
  }

 private:
  // `own`: at the elements of the loop.
  void Visit(ValueId id, bool own) {
    if (IsJoined(program_, id) || !visited_.insert({id, own}).second) return;
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

// Whether units store it element by element, in a buffer that holds no input.
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
