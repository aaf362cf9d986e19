#include "src/stitch/body_work.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/stitch/phases.h"

namespace sinter {
namespace {

constexpr int kIssueOfKey = 18, kIssueOfScan = 30, kIssueOfRandom = 105;

// A divisor of fewer elements than the quotient is prepared once for many of them, which then take
// two multiplications each.
bool SharesDivisor(const Chain& body, const Op& quotient) {
  ValueId id = quotient.operands[1];
  while (body.op(id).kind == OpKind::kBroadcast || body.op(id).kind == OpKind::kReshape) {
    if (body.op(id).kind == OpKind::kBroadcast) return true;
    id = body.op(id).operands[0];
  }
  return body.op(id).type.dims != quotient.type.dims;
}

OpCost CostOfElementwise(const Chain& body, const Op& op, Precision precision) {
  const bool quotient = IsBinary(op, BinaryKind::kDiv);
  if (quotient && precision != Precision::kExact && SharesDivisor(body, op)) return {2, 1};
  const DeviceForm& form = FormOf(TraitsOf(op), precision);
  return {form.issue, form.special};
}

OpCost CostOfCompound(Compound::Function function) {
  const DeviceForm& log1p = TraitsOf(UnaryKind::kLog1p).exact;
  switch (function) {
    case Compound::kLog1p:
      return {log1p.issue, log1p.special};
    case Compound::kOnePlusTanh:
      return {5, 2};
    default:
      return {7, 2};
  }
}

}  // namespace

int64_t BranchesOf(const Op& op) {
  if (op.kind == OpKind::kConcat) return static_cast<int64_t>(op.operands.size());
  const bool computes = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary;
  return computes ? TraitsOf(op).compile_branches : 0;
}

absl::Status StitchBudget::Take(int64_t count) {
  Step(pace, count);
  visits -= count;
  if (visits >= 0) return absl::OkStatus();
  return ResourceExhausted(
      "the kernels that are tried for one plan read their values in more than ", kMostPlannedVisits,
      " ways");
}

absl::Status CheckBodyOps(const Chain& body) {
  if (body.ops().size() > static_cast<size_t>(kMostBodyOps)) {
    return FailedPrecondition(body.ops().size(), " ops, one kernel computes at most ",
                              kMostBodyOps);
  }
  std::vector<int> depths;
  for (const Op& op : body.ops()) {
    int depth = 0;
    for (const ValueId operand : op.operands) {
      depth = std::max(depth, depths[static_cast<size_t>(operand)]);
    }
    depths.push_back(depth + 1);
    if (depth < kMostBodyDepth) continue;
    return RefuseOp(static_cast<ValueId>(depths.size()) - 1, op,
                    absl::StrCat("lies ", depth + 1, " ops deep, at most ", kMostBodyDepth,
                                 " are followed in one kernel"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BodyWork::Entered> BodyWork::Enter(ValueId id, const Position& at,
                                                  const IndexSpace& space) {
  const auto [known, fresh] = known_.try_emplace({id, at}, root_);
  if (!fresh && known->second == root_) return Entered(this, false, false);
  SINTER_RETURN_IF_ERROR(Count(id, at, space));
  known->second = root_;
  if (!fresh) return Entered(this, true, true);
  inside_.push_back(known);
  if (again_ == 0 && ++places_ > kMostPlaces) {
    return RefuseOp(
        id, body_.op(id),
        absl::StrCat("one kernel would compute values at more than ", kMostPlaces, " places"));
  }
  return Entered(this, true, false);
}

absl::Status BodyWork::Branch(ValueId id, int64_t count) {
  branches_ += count;
  if (branches_ <= kMostBranches) return absl::OkStatus();
  return RefuseOp(id, body_.op(id),
                  absl::StrCat("the source of one kernel would have more than ", kMostBranches,
                               " branches, which takes a compiler too long"));
}

absl::Status BodyWork::Count(ValueId id, const Position& at, const IndexSpace& space) {
  int64_t terms = 0;
  for (const Index& index : at) terms += space.TermsOf(index);
  if (terms > kMostPlaceTerms) {
    return RefuseOp(id, body_.op(id),
                    absl::StrCat("its place takes ", terms, " terms to write, at most ",
                                 kMostPlaceTerms, " are written"));
  }
  if (steps_ > kMostSteps) {
    return RefuseOp(id, body_.op(id),
                    absl::StrCat("one thread would compute it more than ", kMostSteps,
                                 " times for one element"));
  }
  SINTER_RETURN_IF_ERROR(Branch(id, BranchesOf(body_.op(id))));
  const int64_t cost = 1 + terms / kTermsAVisit;
  visits_ += cost;
  if (visits_ > kMostVisits) {
    return RefuseOp(
        id, body_.op(id),
        absl::StrCat("the values of one kernel are read in more than ", kMostVisits, " ways"));
  }
  return budget_ == nullptr ? absl::OkStatus() : budget_->Take(cost);
}

void BodyWork::Forget(size_t known) {
  for (size_t i = known; i < inside_.size(); ++i) known_.erase(inside_[i]);
  inside_.resize(known);
}

OpCost CostOfOp(const Chain& body, const std::vector<Precision>& precisions, ValueId id) {
  const Op& op = body.op(id);
  const Precision precision = precisions[static_cast<size_t>(id)];
  if (precision == Precision::kTaken) return {};
  const Compound compound = CompoundAt(body, precisions, id);
  if (compound.function != Compound::kNone) return CostOfCompound(compound.function);
  switch (op.kind) {
    case OpKind::kUnary:
    case OpKind::kBinary:
      return CostOfElementwise(body, op, precision);
    case OpKind::kInput:  // conversion to the type of arithmetic
    case OpKind::kIota:
    case OpKind::kCompare:
    case OpKind::kSelect:
    case OpKind::kCast:
    case OpKind::kReduce:
    case OpKind::kMatmul:  // one factor
      return {1, 0};
    case OpKind::kConcat:
      return {2, 0};
    case OpKind::kGather:  // two comparisons at once, the position, the choice
      return {3, 0};
    case OpKind::kTopK:  // twice: an access, the word of a key, a comparison of words, the choice
      return {kIssueOfKey, 0};
    case OpKind::kScan:  // two accesses, five exchanges among lanes, what came before
      return {kIssueOfScan, 0};
    case OpKind::kRandom:  // ten rounds of two long products, their exclusive ors, the keys
      return {kIssueOfRandom, 0};
    case OpKind::kWindow:  // the choice; its comparisons are shared by a vector
      return {1, 0};
    default:
      return {};
  }
}

}  // namespace sinter
