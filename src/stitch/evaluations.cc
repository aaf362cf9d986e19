
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "src/stitch/index.h"
#include "src/stitch/phases.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"
#include "src/stitch/shared_reads.h"

namespace sinter {
namespace {

constexpr int kUnitDepth = 1, kElementDepth = 2;
constexpr int64_t kPackBytes = 16;
constexpr int kMostShared = 8;  // elements of the longest vector

class Counter {
 public:
  Counter(const Chain& body, const StitchProgram& program, const StitchLoop& loop,
          const StitchPhase* phase, Pace* pace, int pixels)
      : body_(body),
        program_(program),
        units_(phase != nullptr),
        pace_(pace),
        pixels_(program.windows.reductions.empty() ? 1 : pixels) {
    unit_ = space_.AddLoop("u", program.units_symbolic ? 0 : program.units, kUnitDepth);
    element_ = space_.AddLoop("i", loop.symbolic ? 0 : loop.elements, kElementDepth);
    loops_.resize(kElementDepth + 1);
    result_.unit = unit_;
    result_.element = element_;
    result_.times.resize(body.ops().size());
    result_.shared.assign(body.ops().size(), units_ ? 1 : kMostShared);
    if (!units_) return;
    for (const StitchHand& hand : phase->hands) {
      if (&phase->loops[hand.made] < &loop) made_.insert(hand.value);
    }
  }

  void Add(const StitchRoot& root) {
    const absl::StatusOr<Position> at =
        PositionOfRoot(body_, program_, root, units_ ? unit_ : -1, element_, space_);
    if (!at.ok()) return;
    // A stored reduction has been computed by its own root, and left in memory if it is a step.
    const bool step = TakesRow(body_.op(root.value));
    if (root.kind == StitchRoot::kStore && IsJoined(program_, root.value)) {
      if (step) Visit(root.value, *at);
      return;
    }
    if (step && root.kind == StitchRoot::kHand) {
      result_.times[static_cast<size_t>(root.value)] += 1;
    }
    if (root.kind == StitchRoot::kScatter) {
      Visit(body_.op(root.value).operands[1],
            PullPosition(body_, body_.op(root.value), 1, *at, space_));
    }
    if (root.kind == StitchRoot::kStore || root.kind == StitchRoot::kHand ||
        root.kind == StitchRoot::kScatter) {
      if (root.kind == StitchRoot::kStore) Store(root, *at);
      return Visit(WalkedValue(body_, root), *at);
    }
    result_.times[static_cast<size_t>(root.value)] += 1;
    Visit(body_.op(root.mean >= 0 ? root.mean : root.value).operands[0], *at);
  }

  Evaluations Take() {
    result_.space = std::move(space_);
    return std::move(result_);
  }

 private:
  // A loop around the walk: over elements, or of a thread's own reduction.
  struct Around {
    IndexVar k = -1;
    int64_t count = 1;
    double turns = 1;  // for one element, including the loops around
    bool by_element = true;
  };

  // The innermost loop that a place depends on.
  size_t DepthOf(const Position& at) const {
    int depth = kElementDepth;
    for (const Index& index : at) depth = std::max(depth, space_.Depth(index));
    return static_cast<size_t>(depth);
  }
  double TurnsAt(const Position& at) const { return loops_[DepthOf(at)].turns; }

  // Notes a value; false where it is taken from an earlier loop.
  bool Note(ValueId id, const Position& at, const Position& place, Statement* statement) {
    const size_t depth = DepthOf(at);
    statement->turns = loops_[depth].turns;
    statement->in_loop = depth > kElementDepth;
    statement->by_element =
        depth > kElementDepth ? loops_[depth].by_element : space_.MovesWith(place, element_);
    if (made_.count(id) == 0) return true;
    std::optional<Position> in_unit =
        PlaceInUnit(program_, body_.op(id).type.dims, at, unit_, space_);
    statement->taken = in_unit.has_value();
    if (statement->taken) statement->in_unit = *std::move(in_unit);
    return !statement->taken;
  }

  void Visit(ValueId id, const Position& at) {
    Step(pace_);
    // The place is canonical, as in source; positions are pulled from `at`.
    const auto [found, fresh] = result_.statements.try_emplace({id, space_.Canonical(at)});
    if (!fresh) return;
    Statement& statement = found->second;
    if (units_ && !Note(id, at, found->first.second, &statement)) return;
    const Op& op = body_.op(id);
    if (op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul) {
      return VisitJoined(id, op, at, &statement);
    }
    const bool outside = !below_window_;
    below_window_ |= op.kind == OpKind::kWindow;
    result_.times[static_cast<size_t>(id)] += TurnsAt(at) * ShareOf(id, at);
    NoteShared(id, at);
    if (op.kind == OpKind::kInput) Read(id, op, at);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Visit(op.operands[i], PullPosition(body_, op, i, at, space_));
    }
    below_window_ &= !outside;
  }

  // Lowers `shared` of the value to the number of neighbouring elements that all need it at this
  // one place, a power of two. Loops of units start at 1: their source computes a value that does
  // not depend on the element once, before the loop.
  void NoteShared(ValueId id, const Position& at) {
    int& shared = result_.shared[static_cast<size_t>(id)];
    const auto differ = [&](const Index& index) {
      return AlongVector(space_, space_.Canonical(index), element_, shared) != Along::kUniform;
    };
    while (shared > 1 && std::any_of(at.begin(), at.end(), differ)) shared /= 2;
  }

  // Whether it is a pixel of a window, or that with other bits.
  bool IsOfPixel(ValueId id) const {
    while (body_.op(id).kind == OpKind::kCast) id = body_.op(id).operands[0];
    return below_window_ || body_.op(id).kind == OpKind::kWindow;
  }

  bool IsWidened(ValueId id) const {
    const Op& op = body_.op(id);
    return op.kind == OpKind::kCast && op.type.dtype == DType::kF32 &&
           HoldsFloats(body_.op(op.operands[0]).type.dtype);
  }

  // How much of an evaluation falls to one element, where a thread makes several results of windows
  // at once.
  double ShareOf(ValueId id, const Position& at) {
    // Products of taps that are summed are one instruction, and so is a read that is widened.
    if (sliding_ && (id == summed_ || IsWidened(id))) return 0;
    if (pixels_ == 1) return 1;
    const WindowRow& row = program_.windows;
    if (sliding_ && IsOfPixel(id)) {
      return static_cast<double>(ColumnsRead(row, pixels_)) /
             static_cast<double>(pixels_ * row.taps);
    }
    const int64_t next = row.dims.back().value;  // the element of the next pixel
    const bool same = std::all_of(at.begin(), at.end(), [&](const Index& index) {
      const Index place = space_.Canonical(index);
      return space_.ValueAt(place, element_, 0) == space_.ValueAt(place, element_, next);
    });
    return same ? 1.0 / pixels_ : 1;
  }

  void Read(ValueId id, const Op& op, const Position& at) {
    const Index address = AddressOf(at, op.strides, space_);
    const int divisions = DivisionsIn(address);
    std::array<double, 4>& all = result_.accesses[id];
    std::array<double, 4>& divided = result_.divisions[id];
    const double times = TurnsAt(at) * ShareOf(id, at);
    int vector = 1;
    for (size_t i = 0; i < all.size(); ++i) {
      const double accesses = times * AccessesOfVector(space_, address, element_, vector) / vector;
      all[i] += accesses;
      // A tile's place is divided once a tile, not for each access.
      divided[i] += pixels_ > 1 ? 0 : accesses * divisions;
      vector *= 2;
    }
    MemoryTouch touch = TouchOf(address, SizeOf(op.type.dtype));
    touch.input = id;
    touch.times = times;
    touch.window = below_window_;
    touch.by_ids = !space_.ReadsIn(at).empty();
    for (size_t i = kElementDepth + 1; i < loops_.size(); ++i) {
      if (!space_.MovesWith(address, loops_[i].k)) continue;
      const SectorDigits digits =
          DigitsOf(space_, address, loops_[i].k, loops_[i].count, touch.bytes);
      touch.inner.insert(touch.inner.end(), digits.begin(), digits.end());
    }
    result_.touches.push_back(std::move(touch));
  }

  // Divisions in variables that move with the element, each variable once.
  int DivisionsIn(const Index& index) const {
    std::set<IndexVar> seen;
    return DivisionsIn(index, &seen);
  }
  int DivisionsIn(const Index& index, std::set<IndexVar>* seen) const {
    int divisions = 0;
    for (const auto& [v, factor] : index.terms()) {
      if (!seen->insert(v).second) continue;
      const IndexSpace::Var& var = space_.var(v);
      const bool divides =
          var.kind == IndexSpace::Var::kQuotient || var.kind == IndexSpace::Var::kRemainder;
      if (!divides || !space_.MovesWith(var.of, element_)) continue;
      divisions += (var.divisor & (var.divisor - 1)) == 0 ? 0 : 1;
      divisions += DivisionsIn(var.of, seen);
    }
    return divisions;
  }

  void Store(const StitchRoot& root, const Position& at) {
    const ChainOutput& output = body_.outputs()[static_cast<size_t>(root.output)];
    const int64_t bytes = SizeOf(body_.op(root.value).type.dtype);
    result_.touches.push_back(TouchOf(AddressOf(at, output.strides, space_), bytes));
  }

  MemoryTouch TouchOf(const Index& address, int64_t bytes) const {
    MemoryTouch touch;
    touch.bytes = bytes;
    touch.first = space_.ValueAt(address, element_, 0);
    touch.element = DigitsOf(space_, address, element_, space_.var(element_).extent, bytes);
    if (!units_) return touch;
    touch.unit = DigitsOf(space_, address, unit_, space_.var(unit_).extent, bytes);
    for (int wide = static_cast<int>(kPackBytes / bytes); wide > 1; wide /= 2) {
      if (AlongVector(space_, address, unit_, wide) != Along::kNext) continue;
      touch.wide = wide;
      break;
    }
    return touch;
  }

  void VisitJoined(ValueId id, const Op& op, const Position& at, Statement* statement) {
    if (IsThere(body_, program_, id, at, units_ ? unit_ : -1, element_, space_)) {
      statement->turns = 0;
      return;
    }
    const int64_t count = ReducedElements(body_, op);
    const double turns = TurnsAt(at) * static_cast<double>(std::max<int64_t>(count, 1));
    statement->turns = turns;
    statement->in_loop = true;
    const IndexVar k = space_.AddLoop("k", count, static_cast<int>(loops_.size()));
    loops_.push_back({k, count, turns, statement->by_element});
    result_.times[static_cast<size_t>(id)] += turns;
    const std::vector<ValueId>& windows = program_.windows.reductions;
    const bool slides = std::find(windows.begin(), windows.end(), id) != windows.end();
    const Op& operand = body_.op(op.operands[0]);
    const bool product = IsBinary(operand, BinaryKind::kMul);
    if (slides && product && op.reduce == ReduceKind::kSum) summed_ = op.operands[0];
    const bool slid_before = std::exchange(sliding_, sliding_ || slides);
    const bool below_before = std::exchange(below_window_, false);
    result_.steps +=
        slides && pixels_ > 1 ? turns / static_cast<double>(program_.windows.taps) : turns;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Visit(op.operands[i], PullReduced(body_, op, i, at, k, space_));
    }
    loops_.pop_back();
    sliding_ = slid_before;
    below_window_ = below_before;
  }

  const Chain& body_;
  const StitchProgram& program_;
  const bool units_;
  Pace* const pace_;
  const int pixels_;                             // results of windows that a thread makes at once
  bool sliding_ = false, below_window_ = false;  // where the walk stands
  ValueId summed_ = -1;                          // a product of taps that is summed
  IndexSpace space_;
  IndexVar unit_ = -1, element_ = -1;
  std::vector<Around> loops_;  // by depth
  std::set<ValueId> made_;     // handed over by earlier loops
  Evaluations result_;
};

double OfVector(const std::map<ValueId, std::array<double, 4>>& counts, ValueId input, int vector) {
  const auto found = counts.find(input);
  if (found == counts.end()) return 0;
  size_t place = 0;
  while (vector >> (place + 1) > 0 && place + 1 < found->second.size()) ++place;
  return found->second[place];
}

}  // namespace

double Evaluations::AccessesOf(ValueId input, int vector) const {
  return OfVector(accesses, input, vector);
}

int Evaluations::SharedBy(ValueId id, int vector) const {
  return std::min(shared[static_cast<size_t>(id)], vector);
}

double Evaluations::DivisionsOf(ValueId input, int vector) const {
  return OfVector(divisions, input, vector);
}

double Evaluations::TripsOf(const std::pair<const ElementKey, Statement>& one, int vector) const {
  const auto& [key, statement] = one;
  const bool same = std::all_of(key.second.begin(), key.second.end(), [&](const Index& index) {
    return space.ValueAt(index, element, 0) == space.ValueAt(index, element, vector - 1);
  });
  const double vectors = static_cast<double>(space.var(element).extent) / vector;
  return statement.turns * (statement.by_element ? vectors : 1) * (same ? 1 : vector);
}

Evaluations EvaluationsOf(const Chain& body, const StitchProgram& program, const StitchLoop& loop,
                          const StitchPhase* phase, Pace* pace, int pixels) {
  Counter counter(body, program, loop, phase, pace, pixels);
  for (const StitchRoot& root : loop.roots) counter.Add(root);
  return counter.Take();
}

}  // namespace sinter
