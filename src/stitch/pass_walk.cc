#include "src/stitch/pass_walk.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "src/stitch/segment.h"
#include "src/stitch/slots.h"

namespace sinter {
namespace {

class Walker {
 public:
  Walker(const Chain& body, const StitchProgram& program, const StitchPhase& phase, size_t loop,
         int width, Pace* pace)
      : body_(body), program_(program), loop_(phase.loops[loop]), width_(width), pace_(pace) {
    walk_.unit = walk_.space.AddLoop("u", program.units_symbolic ? 0 : program.units, /*depth=*/1);
    walk_.element = walk_.space.AddLoop("i", loop_.elements, 2);
    for (const StitchHand& hand : phase.hands) {
      if (hand.made < loop) made_.insert(hand.value);
    }
  }

  PassWalk Walk() {
    for (const StitchRoot& root : loop_.roots) {
      const absl::StatusOr<Position> at =
          PositionOfRoot(body_, program_, root, walk_.unit, walk_.element, walk_.space);
      if (!at.ok()) continue;
      Visit(WalkedValue(body_, root), *at);
      if (root.mean >= 0) Visit(body_.op(root.mean).operands[0], *at);
    }
    return std::move(walk_);
  }

 private:
  // The loop of a serial reduction and its iterations, over all vectors of all threads.
  struct Serial {
    IndexVar k;
    double turns;
  };

  // Iterations of the innermost loop that `at` depends on. Without one, the value is computed
  // before the pass.
  double Turns(const Position& at, bool* in_loop) {
    double turns = Moves(at, walk_.element) ? static_cast<double>(loop_.elements) / width_ : 1;
    *in_loop = false;
    for (const Serial& serial : serials_) {
      if (!Moves(at, serial.k)) continue;
      turns = serial.turns;
      *in_loop = true;
    }
    return turns;
  }

  bool Moves(const Position& at, IndexVar var) const {
    return std::any_of(at.begin(), at.end(),
                       [&](const Index& index) { return walk_.space.MovesWith(index, var); });
  }

  // Different elements of a vector at `at`: `width_` or one.
  int Width(const Position& at) const {
    const bool same = std::all_of(at.begin(), at.end(), [&](const Index& index) {
      return walk_.space.ValueAt(index, walk_.element, 0) ==
             walk_.space.ValueAt(index, walk_.element, width_ - 1);
    });
    return same ? 1 : width_;
  }

  Position Canonical(const Position& at) {
    Position canonical;
    for (const Index& index : at) canonical.push_back(walk_.space.Canonical(index));
    return canonical;
  }

  void Visit(ValueId id, const Position& at) {
    Step(pace_);
    const Position place = Canonical(at);
    const auto [touch, fresh] = walk_.touches.try_emplace({id, place});
    if (!fresh) return;
    touch->second.trips = Turns(place, &touch->second.in_loop) * Width(place);
    const Op& op = body_.op(id);
    if (made_.count(id) > 0) {
      const auto inside = PlaceInUnit(program_, op.type.dims, at, walk_.unit, walk_.space);
      touch->second.taken = inside.has_value();
      if (inside.has_value()) touch->second.place = *inside;
      if (inside.has_value()) return;
    }
    switch (op.kind) {
      case OpKind::kInput:
      case OpKind::kScalar:
      case OpKind::kIota:
        return;
      case OpKind::kReduce:
      case OpKind::kMatmul:
        return VisitReduced(id, op, at, touch->second);
      default:
        for (size_t i = 0; i < op.operands.size(); ++i) {
          Visit(op.operands[i], PullPosition(body_, op, i, at, walk_.space));
        }
    }
  }

  // A sub-root is known already; otherwise each thread runs its own loop.
  void VisitReduced(ValueId id, const Op& op, const Position& at, PassTouch& touch) {
    const ReduceUse use = program_.uses[static_cast<size_t>(id)];
    const bool row = use == ReduceUse::kRow && IsOfUnit(op, at, walk_.unit, walk_.space);
    const bool segment =
        use == ReduceUse::kSegment &&
        IsOfSegment(body_, program_, op, at, walk_.unit, walk_.element, walk_.space);
    if (use == ReduceUse::kColumn || row || segment) {
      touch.trips = 0;
      return;
    }
    const int64_t count = std::max<int64_t>(1, ReducedElements(body_, op));
    bool in_loop = false;
    const double turns = Turns(Canonical(at), &in_loop) * static_cast<double>(count);
    touch.trips *= static_cast<double>(count);
    touch.in_loop = true;
    const IndexVar k = walk_.space.AddLoop("k", count, 3);
    serials_.push_back({k, turns});
    if (op.kind == OpKind::kMatmul) {
      for (size_t i = 0; i < op.operands.size(); ++i) {
        Visit(op.operands[i], PullFactor(body_, op, i, at, Index::Of(k)));
      }
    } else {
      Visit(op.operands[0], PullReduced(body_, op, at, k, walk_.space));
    }
    serials_.pop_back();
  }

  const Chain& body_;
  const StitchProgram& program_;
  const StitchLoop& loop_;
  const int width_;
  Pace* const pace_;
  std::set<ValueId> made_;  // values of earlier passes
  std::vector<Serial> serials_;
  PassWalk walk_;
};

}  // namespace

PassWalk WalkPass(const Chain& body, const StitchProgram& program, const StitchPhase& phase,
                  size_t loop, int width, Pace* pace) {
  return Walker(body, program, phase, loop, width, pace).Walk();
}

}  // namespace sinter
