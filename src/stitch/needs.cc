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
        work_(work),
        shared_(SharesBuffers(body)) {
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
        if (shared_) needs_.reads[id].insert(space_.Canonical(LinearIndex(op.type.dims, at)));
        return absl::OkStatus();
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

  Needs& needs() { return needs_; }

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
    if (IsThere(body_, program_, id, at, loop_.unit, loop_.element, space_)) {
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
  const bool shared_;  // an output shares an input's buffer
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
  walk.needs().place = space.Canonical(LinearIndex(DimsOfRoot(body, root), at));
  return std::move(walk.needs());
}

absl::Status RefuseOp(ValueId id, const Op& op, absl::string_view why) {
  return FailedPrecondition("op ", id, " (", NameOf(op), "): ", why);
}

}  // namespace sinter
