#include "src/stitch/slots.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/ceil_div.h"
#include "src/stitch/bank_cycles.h"
#include "src/stitch/dominance.h"
#include "src/stitch/hand_over.h"
#include "src/stitch/pass_walk.h"
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
using PassWalks = std::map<size_t, PassWalk>;

// Whether padded rows have fewer bank conflicts for the readers.
bool IsTurned(const Chain& body, const StitchProgram& program, const StitchPhase& phase,
              const StitchHand& hand, PassWalks& walks, Pace* pace) {
  const std::vector<Dim>& dims = body.op(hand.value).type.dims;
  if (RowOf(program, dims) == 0) return false;
  const int64_t bytes = SizeOf(HandedType(body, hand.value));
  double plain = 0, padded = 0;
  for (size_t loop = hand.made + 1; loop <= hand.last; ++loop) {
    const auto [known, fresh] = walks.try_emplace(loop);
    PassWalk& walk = known->second;
    if (fresh) walk = WalkPass(body, program, phase, loop, 1, pace);
    for (auto at = walk.touches.lower_bound({hand.value, {}});
         at != walk.touches.end() && at->first.first == hand.value; ++at) {
      const PassTouch& touch = at->second;
      if (!touch.taken) continue;
      for (const int64_t pad : {int64_t{0}, std::max<int64_t>(1, 4 / bytes)}) {
        const Index place = PlaceOf(touch.place, StridesOf(program, dims, pad));
        const auto cycles = BankCycles(walk.space, place, walk.element, 1, bytes).cycles;
        (pad == 0 ? plain : padded) += touch.trips * static_cast<double>(cycles);
      }
    }
  }
  return plain > kWorthTurning * padded;
}

}  // namespace

void AssignSlots(const Chain& body, const StitchProgram& program, StitchPhase& phase, Pace* pace) {
  phase.hands = FindHands(phase);
  if (phase.hands.empty()) return;
  const Dominance tree(phase);
  PassWalks walks;
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
      const int64_t elements = ElementsInUnit(program, dims);
      const int64_t padded = row == 0 ? elements : elements / row * (row + pad);
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

}  // namespace sinter
