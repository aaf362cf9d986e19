#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/chain/linear_finder.h"
#include "src/collective/collective.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr int64_t kMostColumnsOfBlock = int64_t{1} << 16;
constexpr size_t kMostOps = 16;  // after a sum

class Finder {
 public:
  Finder(const Chain& chain, const std::vector<bool>& claimed)
      : chain_(chain), users_(chain), claimed_(claimed) {}

  absl::StatusOr<FoundCollective> Of(ValueId id) {
    const Op& op = chain_.op(id);
    FoundCollective found;
    CollectiveProblem& p = found.problem;
    p.kind = KindOf(op);
    p.ranks = op.ranks;
    p.element = p.result = op.type.dtype;
    SINTER_RETURN_IF_ERROR(p.kind == CollectiveKind::kAllReduce ? SetExtents(op, &p)
                                                                : SetExtentsOfParts(op, &p));
    found.values = {id};
    found.inputs = {OperandOf(id, &found)};
    SINTER_RETURN_IF_ERROR(CheckContiguous(found.inputs[0]));
    found.end = id;
    TakeReshape(&found);
    if (p.kind != CollectiveKind::kAllGather) {
      TakeProgram(found.end, &CollectiveProblem::program, &found);
      FoundCollective with = found;
      if (HasNorm(&with)) found = std::move(with);
    }
    std::sort(found.values.begin(), found.values.end());
    SINTER_RETURN_IF_ERROR(CheckResult(found.end));
    const absl::Status taken = CheckCollective(p, {false, 512, 1});
    if (!taken.ok()) return Invalid(taken.message(), ": pad its last dimension");
    for (const ValueId value : found.values) claimed_[At(value)] = true;
    return found;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  const TensorType& TypeOf(ValueId id) const { return chain_.op(id).type; }

  static CollectiveKind KindOf(const Op& op) {
    return op.kind == OpKind::kAllGather       ? CollectiveKind::kAllGather
           : op.kind == OpKind::kReduceScatter ? CollectiveKind::kReduceScatter
                                               : CollectiveKind::kAllReduce;
  }

  // For a gather's operand, or a reduce-scatter's result: if only axes of 1 stand before the ranks'
  // axis, a part is one block, whose rows are M. Else it is columns of rows that lie in the axes
  // before.
  absl::Status SetExtentsOfParts(const Op& op, CollectiveProblem* p) const {
    const bool gathers = op.kind == OpKind::kAllGather;
    const std::vector<Dim>& dims = gathers ? TypeOf(op.operands[0]).dims : op.type.dims;
    const auto axis = static_cast<size_t>(op.axis);
    int64_t before = 1, behind = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!dims[i].symbolic) (i < axis ? before : behind) *= dims[i].value;
    }
    const int m = SymbolicAxis(dims);
    if (m > op.axis && before > 1) {
      return Invalid("axis ", m, " of its operand is M, after axis ", op.axis,
                     ", of which ranks have parts: transpose M to axis 0");
    }
    if (m > 0 && m < op.axis && dims[0] != Dim::Constant(1)) {
      return Invalid("axis ", m, " of its operand is M, only axis 0 may be: transpose it");
    }
    p->by_rows = before == 1 && (m < 0 || m > op.axis);
    p->columns = behind;
    if (m < 0) p->fixed_rows = before;
    if (m >= 0 && !p->by_rows) p->rows_per_m = before;
    // Both forms of a block have equally many elements.
    while (p->by_rows && m < 0 && p->columns > kMostColumnsOfBlock && p->columns % 32 == 0) {
      p->columns /= 2;
      p->fixed_rows *= 2;
    }
    return absl::OkStatus();
  }

  // The value in whose memory the op's operand lies: what a reshape reads, if only the op reads the
  // reshape.
  ValueId OperandOf(ValueId id, FoundCollective* found) const {
    const ValueId operand = chain_.op(id).operands[0];
    const Op& op = chain_.op(operand);
    if (op.kind != OpKind::kReshape || OnlyUser(operand) != id || claimed_[At(operand)] ||
        !CheckContiguous(op.operands[0]).ok()) {
      return operand;
    }
    found->values.push_back(operand);
    return op.operands[0];
  }

  // The result as a reshape of it, if only that reshape is read. Sums of whole values need none:
  // their rows are the rows of the chain.
  void TakeReshape(FoundCollective* found) const {
    const ValueId user = OnlyUser(found->end);
    if (found->problem.kind == CollectiveKind::kAllReduce || user < 0) return;
    if (chain_.op(user).kind != OpKind::kReshape || !CheckResult(user).ok()) return;
    found->values.push_back(user);
    found->end = user;
  }

  // A row has all axes but the first, the only one that may be M.
  static absl::Status SetExtents(const Op& op, CollectiveProblem* p) {
    const std::vector<Dim>& dims = op.type.dims;
    p->columns = 1;
    for (size_t i = 1; i < dims.size(); ++i) {
      if (dims[i].symbolic) {
        return Invalid("axis ", i, " of its operand is M, only axis 0 may be: transpose it");
      }
      p->columns *= dims[i].value;
    }
    p->fixed_rows = dims.empty() ? 1 : dims[0].symbolic ? 0 : dims[0].value;
    if (dims.size() == 1 && !dims[0].symbolic) std::swap(p->columns, p->fixed_rows);
    return absl::OkStatus();
  }

  absl::Status CheckContiguous(ValueId id) const {
    const std::vector<Stride> strides = StridesInMemory(chain_, id);
    if (strides == ContiguousStrides(TypeOf(id).dims)) return absl::OkStatus();
    return Invalid(NameOfValue(chain_, id), " has strides ", ToString(absl::MakeConstSpan(strides)),
                   ", kernels over ranks read rows without gaps: copy it");
  }

  absl::Status CheckResult(ValueId end) const {
    int outputs = 0;
    for (const ChainOutput& out : chain_.outputs()) {
      if (out.value != end) continue;
      if (++outputs > 1) return Invalid("it is an output more than once: make it one output");
      if (out.strides != ContiguousStrides(TypeOf(end).dims)) {
        return Invalid("its result has strides ", ToString(absl::MakeConstSpan(out.strides)),
                       ", kernels over ranks store rows without gaps: give it out so");
      }
    }
    return absl::OkStatus();
  }

  // The unclaimed sole user of `id`; -1 if none, or if `id` is an output.
  ValueId OnlyUser(ValueId id) const {
    const ValueId user = users_.Only(id);
    return user >= 0 && !claimed_[At(user)] ? user : -1;
  }
  // Whether a kernel computes the op for each element of a sum.
  static bool IsTaken(const Op& op) {
    return op.kind == OpKind::kCast || IsBinary(op, BinaryKind::kAdd) ||
           IsBinary(op, BinaryKind::kSub) || IsBinary(op, BinaryKind::kMul);
  }

  // Takes along the element-wise ops on `value`, the sum or its norm, as a program: up to the last
  // result that a kernel can store. False: it can store none.
  bool TakeProgram(ValueId value, EpilogueProgram CollectiveProblem::*program,
                   FoundCollective* found) const {
    const FoundCollective before = *found;
    std::vector<ValueId> ops;
    for (ValueId op = OnlyUser(value); op >= 0 && ops.size() < kMostOps && IsTaken(chain_.op(op));
         op = OnlyUser(op)) {
      ops.push_back(op);
      FoundCollective with = before;
      if (MakeProgram(value, ops, program, &with).ok()) *found = std::move(with);
    }
    return found->end != before.end;
  }

  absl::Status MakeProgram(ValueId value, const std::vector<ValueId>& ops,
                           EpilogueProgram CollectiveProblem::*program,
                           FoundCollective* found) const {
    CollectiveProblem& p = found->problem;
    const ValueId end = ops.back();
    const DType of_value = TypeOf(value).dtype, of_end = TypeOf(end).dtype;
    const bool widens = BelowWidening(chain_, end) != end;
    if (widens || (p.norm ? of_end != p.result : SizeOf(of_end) > SizeOf(of_value))) {
      return Invalid("the kernel stores no ", NameOf(of_end));
    }
    const auto is_made = [&](ValueId id) {
      return id == value || std::count(ops.begin(), ops.end(), id) > 0;
    };
    const auto op_at = [&](ValueId id) {
      Op op = chain_.op(id);
      const bool commutes = IsBinary(op, BinaryKind::kAdd) || IsBinary(op, BinaryKind::kMul);
      if (commutes && is_made(op.operands[1])) std::swap(op.operands[0], op.operands[1]);
      return op;
    };
    ProgramMaker maker(op_at,
                       [&](ValueId id) { return is_made(id) ? std::nullopt : LeafAt(id, *found); });
    SINTER_ASSIGN_OR_RETURN(const ValueId leaf, maker.MakeLeaf({LeafKind::kValue}, of_value));
    maker.Set(value, leaf);
    const Op& last = chain_.op(end);
    SINTER_ASSIGN_OR_RETURN(const ValueId made,
                            maker.Make(last.kind == OpKind::kCast ? last.operands[0] : end));
    SINTER_ASSIGN_OR_RETURN(const ValueId result, maker.builder().Cast(made, of_end));
    SINTER_RETURN_IF_ERROR(maker.builder().Output(result));
    SINTER_ASSIGN_OR_RETURN(ProgramMaker::Made body, maker.Finish());
    for (size_t i = 0; i < body.kinds.size(); ++i) {
      if (LiesInMemory(body.kinds[i])) found->inputs.push_back(body.numbers[i]);
    }
    const bool is_store = body.body->ops().size() == 2;  // it only rounds
    if (!is_store) p.*program = ProgramOf(body.body, body.kinds);
    p.result = of_end;
    found->values.insert(found->values.end(), ops.begin(), ops.end());
    found->end = end;
    SINTER_RETURN_IF_ERROR(CheckResult(end));
    return CheckCollective(p, {false, 512, 1});
  }

  // A matrix of the sum's extents, or a vector of its columns that `id` spreads, widened or not.
  std::optional<ProgramMaker::Leaf> LeafAt(ValueId id, const FoundCollective& found) const {
    const std::vector<Dim>& dims = TypeOf(found.end).dims;
    ValueId from = BelowWidening(chain_, id);
    const bool spread = chain_.op(from).kind == OpKind::kBroadcast;
    if (spread) from = BelowWidening(chain_, chain_.op(from).operands[0]);
    const bool whole = !dims.empty() && dims.back() == Dim::Constant(found.problem.columns);
    const bool vector = spread && whole && TypeOf(from).dims == std::vector<Dim>{dims.back()};
    if ((!vector && TypeOf(from).dims != dims) || !CheckContiguous(from).ok() ||
        DependsOn(from, found.end)) {
      return std::nullopt;
    }
    const LeafKind kind = vector ? LeafKind::kColumn : LeafKind::kMatrix;
    return ProgramMaker::Leaf{kind, from, TypeOf(from).dtype};
  }

  // Whether `value` is computed from `from`. Operands come before what reads them.
  bool DependsOn(ValueId value, ValueId from) const {
    std::vector<bool> reached(At(value) + 1);
    reached[At(value)] = true;
    for (ValueId id = value; id > from; --id) {
      if (!reached[At(id)]) continue;
      for (const ValueId operand : chain_.op(id).operands) reached[At(operand)] = true;
    }
    return from <= value && reached[At(from)];
  }

  // Matches x * spread(rsqrt(mean(square(x)) + eps)) with x = `wide`. Returns the product, or -1 if
  // the ops after x are not such a norm.
  ValueId MatchNorm(ValueId wide, FoundCollective* found) const {
    if (users_.IsOutput(wide)) return -1;
    ValueId square = -1;
    for (const ValueId user : users_.Of(wide)) {
      if (IsUnary(chain_.op(user), UnaryKind::kSquare) && !claimed_[At(user)]) square = user;
    }
    if (square < 0) return -1;
    const std::vector<Dim>& dims = TypeOf(wide).dims;
    const auto last = static_cast<int32_t>(dims.size()) - 1;
    const ValueId mean = OnlyUser(square);
    if (mean < 0 || dims.back() != Dim::Constant(found->problem.columns)) return -1;
    const Op& reduce = chain_.op(mean);
    if (reduce.kind != OpKind::kReduce || reduce.reduce != ReduceKind::kMean || !reduce.keepdims ||
        reduce.axes != std::vector<int32_t>{last}) {
      return -1;
    }
    const ValueId sum = OnlyUser(mean), eps = OtherOperand(chain_, sum, BinaryKind::kAdd, mean);
    if (eps < 0 || chain_.op(eps).kind != OpKind::kScalar) return -1;
    const ValueId root = OnlyUser(sum);
    if (root < 0 || !IsUnary(chain_.op(root), UnaryKind::kRsqrt)) return -1;
    const ValueId spread = OnlyUser(root);
    if (spread < 0 || chain_.op(spread).kind != OpKind::kBroadcast) return -1;
    const ValueId normal = OnlyUser(spread);
    if (OtherOperand(chain_, normal, BinaryKind::kMul, wide) != spread) return -1;
    found->problem.eps = chain_.op(eps).scalar;
    found->values.insert(found->values.end(), {square, mean, sum, root, spread, normal});
    return normal;
  }

  // The RMS norm of the sum as it is stored, rounded to its type. The sum may be an output, and
  // others may read it, as the next sum its residual.
  bool HasNorm(FoundCollective* found) const {
    CollectiveProblem& p = found->problem;
    const ValueId sum = found->end;
    ValueId wide = sum;
    p.keeps = users_.IsOutput(sum);
    if (p.result != DType::kF32) {
      for (const ValueId user : users_.Of(sum)) {
        if (BelowWidening(chain_, user) == sum && !claimed_[At(user)]) wide = user;
      }
      if (wide == sum) return false;
    } else if (p.keeps) {
      return false;  // MatchNorm looks at an f32 sum itself
    }
    const ValueId normal = MatchNorm(wide, found);
    if (normal < 0) return false;
    // Other readers widen the stored value themselves.
    const bool alone = users_.Of(wide).size() == 2;
    if (wide != sum && alone) found->values.push_back(wide);
    p.keeps = p.keeps || !alone || users_.Of(sum).size() > (wide == sum ? 2u : 1u);
    p.norm = true;
    if (p.keeps) found->kept = sum;
    if (!CheckResult(sum).ok() || !TakeProgram(normal, &CollectiveProblem::norm_program, found)) {
      return false;
    }
    // With many rows, two shots send less over more than two ranks.
    const bool two_shot = p.ranks > 2 && p.kind == CollectiveKind::kAllReduce;
    return !two_shot || CheckCollective(p, {true, 512, 1}).ok();
  }

  const Chain& chain_;
  const Users users_;
  std::vector<bool> claimed_;
};

}  // namespace

std::vector<FoundCollective> FindCollectives(const Chain& chain, const std::vector<bool>& claimed,
                                             std::map<ValueId, std::string>* refused) {
  std::vector<FoundCollective> all;
  if (chain.ranks() == 1) return all;
  Finder finder(chain, claimed);
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (!IsCollective(chain.op(id))) continue;
    absl::StatusOr<FoundCollective> found = finder.Of(id);
    if (found.ok()) {
      all.push_back(*std::move(found));
    } else if (refused != nullptr) {
      (*refused)[id] = std::string(found.status().message());
    }
  }
  return all;
}

}  // namespace sinter
