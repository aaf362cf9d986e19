#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/phases.h"
#include "src/stitch/program.h"

namespace sinter {
namespace {

class Walk {
 public:
  Walk(const Chain& body, const StitchProgram& program, const RootLoop& loop,
       const std::map<ValueId, int>& column_phases, IndexSpace& space, BodyWork& work)
      : body_(body),
        program_(program),
        loop_(loop),
        columns_(column_phases),
        space_(space),
        work_(work) {
    work_.BeginRoot();
  }

  absl::Status Visit(ValueId id, const Position& at) {
    SINTER_ASSIGN_OR_RETURN(const BodyWork::Entered entered, work_.Enter(id, at, space_));
    if (!entered.fresh()) return absl::OkStatus();
    const Op& op = body_.op(id);
    switch (ReadOfHanded(body_, program_, id, at, loop_, space_)) {
      case HandRead::kTaken:
        needs_.subs.insert(id);
        return absl::OkStatus();
      case HandRead::kOutside:
        return RefuseOp(id, op, "is handed over inside a unit and read by others");
      case HandRead::kOwn:
        needs_.own.insert(id);
        break;
      case HandRead::kNone:
        break;
    }
    switch (op.kind) {
      case OpKind::kInput:
      case OpKind::kScalar:
      case OpKind::kIota:
        return absl::OkStatus();
      case OpKind::kReduce:
        return VisitReduce(id, op, at);
      case OpKind::kMatmul:
        return VisitProduct(id, op, at);
      case OpKind::kConcat:
        return VisitConcat(op, at);
      case OpKind::kTopK:
      case OpKind::kScan:
        return RefuseOp(id, op, "is read by other units than its own");
      default:
        for (size_t i = 0; i < op.operands.size(); ++i) {
          SINTER_RETURN_IF_ERROR(Visit(op.operands[i], PullPosition(body_, op, i, at, space_)));
        }
        return absl::OkStatus();
    }
  }

  // A scatter reads the id of the row that it stores, and in a loop the ids of all rows.
  absl::Status VisitIds(const StitchRoot& root, const Position& at) {
    const Op& op = body_.op(root.value);
    const ValueId ids = op.operands[1];
    if (root.kind == StitchRoot::kScatter) {
      SINTER_RETURN_IF_ERROR(Visit(ids, PullPosition(body_, op, 1, at, space_)));
    }
    const BodyWork::Scope loop(&work_);
    const IndexVar k = space_.AddLoop("k", 0, 3);
    return Visit(ids, PositionIn(body_.op(ids).type.dims, k, space_));
  }

  const Needs& needs() const { return needs_; }

 private:
  absl::Status VisitConcat(const Op& op, const Position& at) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const BodyWork::Scope side(&work_);
      SINTER_RETURN_IF_ERROR(Visit(op.operands[i], PullPosition(body_, op, i, at, space_)));
    }
    return absl::OkStatus();
  }

  absl::Status VisitProduct(ValueId id, const Op& op, const Position& at) {
    if (!IsFineGrained(body_, op)) return RefuseOp(id, op, "products have kernels of their own");
    return VisitReduced(op, at, ReducedElements(body_, op));
  }

  absl::Status VisitReduced(const Op& op, const Position& at, int64_t count) {
    const BodyWork::Scope loop(&work_, count);
    const IndexVar k = space_.AddLoop("k", count, 3);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      SINTER_RETURN_IF_ERROR(Visit(op.operands[i], PullReduced(body_, op, i, at, k, space_)));
    }
    return absl::OkStatus();
  }

  absl::Status VisitReduce(ValueId id, const Op& op, const Position& at) {
    const ReduceUse use = program_.uses[static_cast<size_t>(id)];
    if (use == ReduceUse::kColumn) {
      needs_.phase = std::max(needs_.phase, columns_.at(id) + 1);
      return absl::OkStatus();
    }
    if (use == ReduceUse::kRow && loop_.unit >= 0 && IsOfUnit(op, at, loop_.unit, space_)) {
      needs_.subs.insert(id);
      return absl::OkStatus();
    }
    if (use == ReduceUse::kSegment && loop_.unit >= 0 &&
        IsOfSegment(body_, program_, op, at, loop_.unit, loop_.element, space_)) {
      needs_.subs.insert(id);
      return absl::OkStatus();
    }
    if (use == ReduceUse::kSegment && loop_.unit >= 0) needs_.made_again = id;
    const int64_t count = ReducedElements(body_, op);
    if (count == 0 || count > kMostSerial) {
      return RefuseOp(id, op,
                      use == ReduceUse::kRow
                          ? "is read by other units than its own"
                          : "is too long for one thread and not over whole rows");
    }
    return VisitReduced(op, at, count);
  }

  const Chain& body_;
  const StitchProgram& program_;
  const RootLoop loop_;
  const std::map<ValueId, int>& columns_;
  IndexSpace& space_;
  BodyWork& work_;
  Needs needs_;
};

}  // namespace

absl::StatusOr<Needs> NeedsOf(const Chain& body, const StitchProgram& program,
                              const StitchRoot& root, const Position& at, const RootLoop& loop,
                              const std::map<ValueId, int>& columns, IndexSpace& space,
                              BodyWork& work) {
  Walk walk(body, program, loop, columns, space, work);
  SINTER_RETURN_IF_ERROR(walk.Visit(WalkedValue(body, root), at));
  if (body.op(root.value).kind == OpKind::kScatter) {
    SINTER_RETURN_IF_ERROR(walk.VisitIds(root, at));
  }
  return walk.needs();
}

absl::Status RefuseOp(ValueId id, const Op& op, absl::string_view why) {
  return FailedPrecondition("op ", id, " (", NameOf(op), "): ", why);
}

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
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Visit(op.operands[i], PullReduced(body_, op, i, at, k, walk_.space));
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
