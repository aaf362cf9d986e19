#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/chain/linear_finder.h"
#include "src/collective/collective.h"

namespace sinter {
namespace {

constexpr int64_t kMostColumnsOfBlock = int64_t{1} << 16;

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
    if (p.kind == CollectiveKind::kAllReduce) {
      SINTER_RETURN_IF_ERROR(SetExtents(op, &p));
    } else {
      SINTER_RETURN_IF_ERROR(SetExtentsOfParts(op, &p));
    }
    found.values = {id};
    found.inputs = {OperandOf(id, &found)};
    SINTER_RETURN_IF_ERROR(CheckContiguous(found.inputs[0]));
    found.end = id;
    TakeReshape(&found);
    if (p.kind != CollectiveKind::kAllGather) {
      TakeCast(&found);
      TakeResidual(&found);
      TakeNorm(&found);
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
  bool IsCast(ValueId id, DType dtype) const {
    return id >= 0 && chain_.op(id).kind == OpKind::kCast && TypeOf(id).dtype == dtype;
  }
  static bool Is16Bit(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

  // Takes along the cast of an f32 sum if it gives 16 bits and nothing else reads the sum.
  void TakeCast(FoundCollective* found) const {
    const ValueId user = OnlyUser(found->end);
    if (found->problem.element != DType::kF32 || user < 0) return;
    if (chain_.op(user).kind != OpKind::kCast || !Is16Bit(TypeOf(user).dtype)) return;
    found->problem.result = TypeOf(user).dtype;
    found->values.push_back(user);
    found->end = user;
  }

  // The sum as the chain has it, widened or not, plus a matrix of the result's type. A sum in f32
  // of 16-bit terms is taken where the chain rounds it.
  void TakeResidual(FoundCollective* found) const {
    CollectiveProblem& p = found->problem;
    std::vector<ValueId> values;
    ValueId sum = found->end;
    if (IsCast(OnlyUser(sum), DType::kF32)) {
      sum = OnlyUser(sum);
      values.push_back(sum);
    }
    const ValueId add = OnlyUser(sum);
    const ValueId other = OtherOperand(chain_, add, BinaryKind::kAdd, sum);
    if (other < 0 || TypeOf(other).dims != TypeOf(add).dims) return;
    const ValueId residual = BelowWidening(chain_, other);
    const DType dtype = TypeOf(residual).dtype;
    values.push_back(add);
    ValueId end = add;
    if (IsCast(OnlyUser(add), dtype)) {
      end = OnlyUser(add);
      values.push_back(end);
    }
    // The sum is rounded before, or the whole is rounded once.
    const bool rounded = dtype == p.result;
    const bool once = !rounded && p.result == DType::kF32 && p.element == DType::kF32;
    if ((!rounded && !once) || TypeOf(end).dtype != dtype) return;
    if (!CheckContiguous(residual).ok() || !CheckResult(end).ok()) return;
    p.residual = true;
    p.rounded = rounded;
    p.result = dtype;
    found->inputs.push_back(residual);
    found->values.insert(found->values.end(), values.begin(), values.end());
    found->end = end;
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

  // Matches x * spread(rsqrt(mean(square(x)) + eps)) * spread(gamma) with x = `wide`, of which the
  // first product may be rounded to the result's type. Returns the last product, or -1 if the ops
  // after x are not such a norm.
  ValueId MatchNorm(ValueId wide, FoundCollective* found, std::vector<ValueId>* values) const {
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
    ValueId scaled = normal;
    if (Is16Bit(found->problem.result) && IsCast(OnlyUser(normal), found->problem.result)) {
      values->push_back(scaled = OnlyUser(normal));
      if (IsCast(OnlyUser(scaled), DType::kF32)) values->push_back(scaled = OnlyUser(scaled));
      found->problem.norm_rounded = true;
    }
    const ValueId product = OnlyUser(scaled);
    const ValueId factor = OtherOperand(chain_, product, BinaryKind::kMul, scaled);
    if (factor < 0 || chain_.op(factor).kind != OpKind::kBroadcast) return -1;
    const ValueId below = chain_.op(factor).operands[0], gamma = BelowWidening(chain_, below);
    const TensorType& type = TypeOf(gamma);
    if (type.dtype != found->problem.result || type.dims != std::vector<Dim>{dims.back()} ||
        !CheckContiguous(gamma).ok() || DependsOn(gamma, found->end)) {
      return -1;
    }
    found->problem.eps = chain_.op(eps).scalar;
    found->inputs.push_back(gamma);
    values->insert(values->end(), {square, mean, sum, root, spread, normal, product});
    if (OnlyUser(factor) == product) {
      values->push_back(factor);
      if (below != gamma && OnlyUser(below) == factor) values->push_back(below);
    }
    return product;
  }

  // The RMS norm of the sum as it is stored, rounded to its type. The sum may be an output, and
  // others may read it, as the next sum its residual.
  void TakeNorm(FoundCollective* found) const {
    FoundCollective with = *found;
    if (HasNorm(&with)) *found = std::move(with);
  }
  bool HasNorm(FoundCollective* found) const {
    CollectiveProblem& p = found->problem;
    const ValueId sum = found->end;
    std::vector<ValueId> values;
    ValueId wide = sum;
    p.keeps = users_.IsOutput(sum);
    if (p.result != DType::kF32) {
      for (const ValueId user : users_.Of(sum)) {
        if (IsCast(user, DType::kF32) && !claimed_[At(user)]) wide = user;
      }
      if (wide == sum) return false;
    } else if (p.keeps) {
      return false;  // MatchNorm looks at an f32 sum itself
    }
    const ValueId product = MatchNorm(wide, found, &values);
    if (product < 0) return false;
    // Other readers widen the stored value themselves.
    const bool alone = users_.Of(wide).size() == 2;
    if (wide != sum && alone) values.push_back(wide);
    p.keeps = p.keeps || !alone || users_.Of(sum).size() > (wide == sum ? 2u : 1u);
    ValueId end = product;
    if (TypeOf(product).dtype != p.result) {
      end = OnlyUser(product);
      if (!IsCast(end, p.result)) return false;
      values.push_back(end);
    }
    p.norm = true;
    if (p.keeps) found->kept = sum;
    if (!CheckResult(sum).ok() || !CheckResult(end).ok()) return false;
    // With many rows, two shots send less over more than two ranks.
    const bool two_shot = p.ranks > 2 && p.kind == CollectiveKind::kAllReduce;
    if (!CheckCollective(p, {false, 512, 1}).ok()) return false;
    if (two_shot && !CheckCollective(p, {true, 512, 1}).ok()) return false;
    found->values.insert(found->values.end(), values.begin(), values.end());
    found->end = end;
    return true;
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
