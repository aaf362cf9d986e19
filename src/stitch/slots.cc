#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "src/base/numbers.h"
#include "src/stitch/phases.h"
#include "src/stitch/sectors.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int64_t kAlignment = 16;  // bytes of the widest access
constexpr double kWorthTurning = 1.5;

// The phase's hand-overs with their loops, without slots.
std::vector<StitchHand> FindHands(const StitchPhase& phase) {
  std::vector<StitchHand> hands;
  for (size_t loop = 0; loop < phase.loops.size(); ++loop) {
    for (const StitchRoot& root : phase.loops[loop].roots) {
      if (root.kind == StitchRoot::kHand) hands.push_back({root.value, loop, loop, -1, false});
    }
  }
  for (StitchHand& hand : hands) {
    for (size_t loop = hand.made + 1; loop < phase.loops.size(); ++loop) {
      for (const StitchRoot& root : phase.loops[loop].roots) {
        if (std::binary_search(root.reads.begin(), root.reads.end(), hand.value)) hand.last = loop;
      }
    }
  }
  return hands;
}

// The phase's sub-roots as a dominance tree, from what leaves the phase.
class Dominance {
 public:
  explicit Dominance(const StitchPhase& phase) {
    std::vector<const StitchRoot*> roots;
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        roots.push_back(&root);
        const bool leaves = root.kind == StitchRoot::kStore || root.kind == StitchRoot::kColumn ||
                            root.kind == StitchRoot::kScatter;
        if (!leaves) nodes_[root.value] = static_cast<int>(roots.size());
      }
    }
    std::vector<std::vector<int>> successors(roots.size() + 1);
    for (size_t i = 0; i < roots.size(); ++i) {
      const auto known = nodes_.find(roots[i]->value);
      const int node = static_cast<int>(i) + 1;
      if (known == nodes_.end() || known->second != node) successors[0].push_back(node);
      for (const ValueId read : roots[i]->reads) {
        const auto to = nodes_.find(read);
        if (to != nodes_.end() && to->second != node) successors[i + 1].push_back(to->second);
      }
    }
    immediate_ = ImmediateDominators(successors);
  }

  bool Over(ValueId value, ValueId other) const {
    return Dominates(immediate_, nodes_.at(value), nodes_.at(other));
  }

 private:
  std::map<ValueId, int> nodes_;
  std::vector<int> immediate_;
};

// Elements of a hand-over's innermost axis; 0: it has no other axis.
int64_t RowOf(const StitchProgram& program, const std::vector<Dim>& dims) {
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  if (!cut.ok() || cut->element_dims.size() < 2) return 0;
  return cut->element_dims.back();
}

std::vector<int64_t> StridesOf(const StitchProgram& program, const std::vector<Dim>& dims,
                               int64_t pad) {
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  std::vector<int64_t> strides(cut.ok() ? cut->element_dims.size() : 0, 1);
  for (size_t i = strides.size(); i-- > 1;) {
    const int64_t extent = cut->element_dims[i] + (i + 1 == strides.size() ? pad : 0);
    strides[i - 1] = strides[i] * extent;
  }
  return strides;
}

Index PlaceOf(const Position& at, const std::vector<int64_t>& strides) {
  Index place;
  for (size_t i = 0; i < at.size(); ++i) place = place.Plus(at[i].Times(strides[i]));
  return place;
}

// By loop of a phase, each made when it is first needed.
using LoopWalks = std::map<size_t, Evaluations>;

// Whether padded rows have fewer bank conflicts for the readers.
bool IsTurned(const Chain& body, const StitchProgram& program, const StitchPhase& phase,
              const StitchHand& hand, LoopWalks& walks, Pace* pace) {
  const std::vector<Dim>& dims = body.op(hand.value).type.dims;
  if (RowOf(program, dims) == 0 || TakesRow(body.op(hand.value))) return false;
  const int64_t bytes = SizeOf(HandedType(body, hand.value));
  double plain = 0, padded = 0;
  for (size_t loop = hand.made + 1; loop <= hand.last; ++loop) {
    const auto [known, fresh] = walks.try_emplace(loop);
    Evaluations& walk = known->second;
    if (fresh) walk = EvaluationsOf(body, program, phase.loops[loop], &phase, pace);
    for (auto at = walk.statements.lower_bound({hand.value, {}});
         at != walk.statements.end() && at->first.first == hand.value; ++at) {
      if (!at->second.taken) continue;
      for (const int64_t pad : {int64_t{0}, std::max<int64_t>(1, 4 / bytes)}) {
        const Index place = PlaceOf(at->second.in_unit, StridesOf(program, dims, pad));
        const auto cycles = BankCycles(walk.space, place, walk.element, 1, bytes).cycles;
        (pad == 0 ? plain : padded) += walk.TripsOf(*at, 1) * static_cast<double>(cycles);
      }
    }
  }
  return plain > kWorthTurning * padded;
}

// Reachable nodes in post-order (successors first, except along cycles). Uses an explicit stack.
std::vector<int> PostOrder(const std::vector<std::vector<int>>& successors) {
  std::vector<int> order;
  std::vector<bool> seen(successors.size());
  std::vector<std::pair<int, size_t>> stack = {{0, 0}};
  seen[0] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const std::vector<int>& to = successors[static_cast<size_t>(node)];
    if (next == to.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const int child = to[next++];
    if (seen[static_cast<size_t>(child)]) continue;
    seen[static_cast<size_t>(child)] = true;
    stack.push_back({child, 0});
  }
  return order;
}

bool IsHanded(const StitchProgram& program, ValueId id) {
  return std::binary_search(program.handed.begin(), program.handed.end(), id);
}

// Whether the value is read at the element where the reader stands, which the same thread computes.
bool IsOwn(const Chain& body, const StitchProgram& program, ValueId id, const Position& at,
           const RootLoop& reader, IndexSpace& space) {
  if (TakesRow(body.op(id))) return false;  // by the unit's threads together
  const std::vector<Dim>& dims = body.op(id).type.dims;
  if (reader.elements != ElementsInUnit(program, dims)) return false;
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  if (!cut.ok()) return false;
  const Position own = PositionIn(*cut, reader.unit, reader.element, space);
  return space.Canonical(LinearIndex(dims, at)) == space.Canonical(LinearIndex(dims, own));
}

}  // namespace

void AssignSlots(const Chain& body, const StitchProgram& program, StitchPhase& phase, Pace* pace) {
  phase.hands = FindHands(phase);
  if (phase.hands.empty()) return;
  const Dominance tree(phase);
  LoopWalks walks;
  std::vector<const StitchHand*> latest;  // the latest hand-over in each slot
  for (StitchHand& hand : phase.hands) {
    hand.turned = IsTurned(body, program, phase, hand, walks, pace);
    const auto dead = [&](const StitchHand* old) { return old->last < hand.made; };
    auto free = std::find_if(latest.begin(), latest.end(), [&](const StitchHand* old) {
      return dead(old) && tree.Over(hand.value, old->value);
    });
    if (free == latest.end()) free = std::find_if(latest.begin(), latest.end(), dead);
    hand.slot = static_cast<int>(free - latest.begin());
    if (free == latest.end()) latest.push_back(&hand);
    latest[static_cast<size_t>(hand.slot)] = &hand;
  }
}

std::vector<bool> MeetsBefore(const StitchPhase& phase, bool rows_meet) {
  std::vector<bool> meets(phase.loops.size());
  std::set<int> left, taken;  // slots written, and read, since the last barrier
  // Units follow one another, so a second round sees the readers of the first round's last loop.
  for (int round = 0; round < 2; ++round) {
    for (size_t loop = 0; loop < phase.loops.size(); ++loop) {
      std::set<int> leaves, takes;
      for (const StitchHand& hand : phase.hands) {
        if (hand.made == loop) leaves.insert(hand.slot);
        bool reads = false;
        for (const StitchRoot& root : phase.loops[loop].roots) {
          reads |= std::binary_search(root.reads.begin(), root.reads.end(), hand.value);
        }
        if (reads && loop > hand.made) takes.insert(hand.slot);
      }
      const auto among = [](const std::set<int>& some) {
        return [&some](int slot) { return some.count(slot) > 0; };
      };
      meets[loop] = meets[loop] || std::any_of(takes.begin(), takes.end(), among(left)) ||
                    std::any_of(leaves.begin(), leaves.end(), among(taken)) ||
                    std::any_of(leaves.begin(), leaves.end(), among(left));
      if (meets[loop]) left.clear(), taken.clear();
      left.insert(leaves.begin(), leaves.end());
      taken.insert(takes.begin(), takes.end());
      bool rows = false;
      for (const StitchRoot& root : phase.loops[loop].roots) rows |= root.kind == StitchRoot::kRow;
      if (rows && rows_meet) left.clear(), taken.clear();
    }
  }
  return meets;
}

HandLayout LayOutHands(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule) {
  HandLayout layout;
  for (const StitchPhase& phase : program.phases) {
    std::vector<int64_t> slots;
    std::vector<HandPlace>& places = layout.phases.emplace_back();
    for (const StitchHand& hand : phase.hands) {
      const std::vector<Dim>& dims = body.op(hand.value).type.dims;
      HandPlace place;
      place.value = hand.value;
      place.dtype = HandedType(body, hand.value);
      const int64_t size = SizeOf(place.dtype);
      int64_t pad = 0;
      if (hand.turned) {
        const int vector = LoopVector(body, schedule, phase.loops[hand.made]);
        pad = std::max<int64_t>(vector, std::max<int64_t>(1, 4 / size));
      }
      place.strides = StridesOf(program, dims, pad);
      const int64_t row = RowOf(program, dims);
      const Op& op = body.op(hand.value);
      const int64_t elements =
          TakesRow(op) ? SharedElementsOf(body, op) : ElementsInUnit(program, dims);
      const int64_t padded = row == 0 || TakesRow(op) ? elements : elements / row * (row + pad);
      slots.resize(std::max(slots.size(), static_cast<size_t>(hand.slot) + 1));
      int64_t& bytes = slots[static_cast<size_t>(hand.slot)];
      place.bytes = padded * size;
      bytes = std::max(bytes, RoundUp(place.bytes, kAlignment));
      places.push_back(std::move(place));
    }
    int64_t end = 0;
    std::vector<int64_t> offsets;
    for (const int64_t bytes : slots) {
      offsets.push_back(end);
      end += bytes;
    }
    for (size_t i = 0; i < places.size(); ++i) {
      places[i].offset = offsets[static_cast<size_t>(phase.hands[i].slot)];
    }
    layout.group_bytes = std::max(layout.group_bytes, end);
  }
  return layout;
}

std::vector<int> ImmediateDominators(const std::vector<std::vector<int>>& successors) {
  const std::vector<int> order = PostOrder(successors);
  std::vector<int> number(successors.size(), -1);
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int>(i);
  std::vector<std::vector<int>> predecessors(successors.size());
  for (const int node : order) {
    for (const int to : successors[static_cast<size_t>(node)]) {
      predecessors[static_cast<size_t>(to)].push_back(node);
    }
  }
  std::vector<int> immediate(successors.size(), -1);
  immediate[0] = 0;
  // The nearest common dominator of `a` and `b`.
  const auto meet = [&](int a, int b) {
    while (a != b) {
      int& lower = number[static_cast<size_t>(a)] < number[static_cast<size_t>(b)] ? a : b;
      lower = immediate[static_cast<size_t>(lower)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size() - 1; i-- > 0;) {  // the entry is last
      const int node = order[i];
      int best = -1;
      for (const int from : predecessors[static_cast<size_t>(node)]) {
        if (immediate[static_cast<size_t>(from)] < 0) continue;
        best = best < 0 ? from : meet(from, best);
      }
      changed |= immediate[static_cast<size_t>(node)] != best;
      immediate[static_cast<size_t>(node)] = best;
    }
  }
  return immediate;
}

bool Dominates(const std::vector<int>& immediate, int over, int node) {
  if (immediate[static_cast<size_t>(node)] < 0) return false;
  while (node != over && node != 0) node = immediate[static_cast<size_t>(node)];
  return node == over;
}

// Compares axis by axis, not by a linear index: beyond a concat's border an axis may be negative
// (nothing is read there), while the unit's axes are still known.
std::optional<Position> PlaceInUnit(const StitchProgram& program, const std::vector<Dim>& dims,
                                    const Position& at, IndexVar unit, IndexSpace& space) {
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  if (!cut.ok()) return std::nullopt;
  const size_t units = cut->unit_dims.size();
  Position place(at.begin() + static_cast<std::ptrdiff_t>(units), at.end());
  Position of_unit(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(units));
  if (cut->across) {
    const int64_t inner = cut->element_dims[0];
    place.insert(place.begin(), space.Remainder(of_unit.back(), inner));
    of_unit.back() = space.Quotient(of_unit.back(), inner);
  }
  Index linear;
  for (size_t i = 0; i < units; ++i) {
    linear = linear.Times(cut->unit_dims[i]).Plus(of_unit[i]);
  }
  linear = space.Canonical(linear);
  if (linear == Index::Of(unit) || (linear == Index() && space.var(unit).extent == 1)) return place;
  return std::nullopt;
}

HandRead ReadOfHanded(const Chain& body, const StitchProgram& program, ValueId id,
                      const Position& at, const RootLoop& reader, IndexSpace& space) {
  if (reader.unit < 0 || !IsHanded(program, id)) return HandRead::kNone;
  if (IsOwn(body, program, id, at, reader, space)) return HandRead::kOwn;
  const bool inside =
      PlaceInUnit(program, body.op(id).type.dims, at, reader.unit, space).has_value();
  return inside ? HandRead::kTaken : HandRead::kOutside;
}

bool MayBeHanded(const Chain& body, const StitchProgram& program, ValueId id) {
  const Op& op = body.op(id);
  if (TakesRow(op)) return true;
  if (IsJoined(program, id)) return false;
  if (op.kind == OpKind::kScalar || op.kind == OpKind::kIota) return false;
  if (op.kind == OpKind::kScatter) return false;
  return program.owner >= 0 && program.tile.axis < 0 && CutUnits(program, op.type.dims).ok();
}

int64_t ElementsInUnit(const StitchProgram& program, const std::vector<Dim>& dims) {
  return ElementsPerM(dims) / program.units;
}

DType HandedType(const Chain& body, ValueId id) {
  const Op& op = body.op(id);
  const DType own = op.type.dtype;
  const bool stored_so = op.kind == OpKind::kInput || op.kind == OpKind::kCast;
  return stored_so || !IsFloat(own) ? own : DType::kF32;
}

}  // namespace sinter
