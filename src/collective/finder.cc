#include "src/collective/finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/subgraph.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status Refuse(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(args...));
}

class Finder {
 public:
  Finder(const Chain& chain, const std::vector<bool>& claimed)
      : chain_(chain), users_(chain.ops().size()), claimed_(claimed) {
    for (ValueId user = 0; user < static_cast<ValueId>(chain.ops().size()); ++user) {
      for (const ValueId operand : chain.op(user).operands) {
        std::vector<ValueId>& of = users_[At(operand)];
        if (of.empty() || of.back() != user) of.push_back(user);
      }
    }
  }

  absl::StatusOr<FoundAllReduce> Of(ValueId id) {
    const Op& op = chain_.op(id);
    FoundAllReduce found;
    AllReduceProblem& p = found.problem;
    SINTER_RETURN_IF_ERROR(SetExtents(op, &p));
    SINTER_RETURN_IF_ERROR(CheckContiguous(op.operands[0]));
    p.ranks = op.ranks;
    p.element = p.result = op.type.dtype;
    found.inputs = {op.operands[0]};
    found.values = {id};
    found.end = id;
    TakeCast(&found);
    TakeResidual(&found);
    std::sort(found.values.begin(), found.values.end());
    SINTER_RETURN_IF_ERROR(CheckResult(found.end));
    const absl::Status taken = CheckAllReduce(p, {});
    if (!taken.ok()) return Refuse(taken.message(), ": pad its last dimension");
    for (const ValueId value : found.values) claimed_[At(value)] = true;
    return found;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  const TensorType& TypeOf(ValueId id) const { return chain_.op(id).type; }

  // A row is what lies behind the first axis, which alone may be M.
  static absl::Status SetExtents(const Op& op, AllReduceProblem* p) {
    const std::vector<Dim>& dims = op.type.dims;
    p->columns = 1;
    for (size_t i = 1; i < dims.size(); ++i) {
      if (dims[i].symbolic) {
        return Refuse("axis ", i, " of its operand is M, only axis 0 may be: transpose it");
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
    return Refuse(NameOfValue(chain_, id), " has strides ", ToString(absl::MakeConstSpan(strides)),
                  ", kernels of sums over ranks read rows without gaps: copy it");
  }

  absl::Status CheckResult(ValueId end) const {
    int outputs = 0;
    for (const ChainOutput& out : chain_.outputs()) {
      if (out.value != end) continue;
      if (++outputs > 1) return Refuse("it is given out more than once: give it out once");
      if (out.strides != ContiguousStrides(TypeOf(end).dims)) {
        return Refuse("its result has strides ", ToString(absl::MakeConstSpan(out.strides)),
                      ", kernels of sums over ranks store rows without gaps: give it out so");
      }
    }
    return absl::OkStatus();
  }

  // The only reader of `id`; -1 where there are others or it is given out.
  ValueId OnlyUser(ValueId id) const {
    const std::vector<ValueId>& of = users_[At(id)];
    return of.size() == 1 && OutputOf(chain_, id) < 0 && !claimed_[At(of[0])] ? of[0] : -1;
  }
  bool IsCast(ValueId id, DType dtype) const {
    return id >= 0 && chain_.op(id).kind == OpKind::kCast && TypeOf(id).dtype == dtype;
  }
  // Below a cast to f32 that loses nothing.
  ValueId SkipWidening(ValueId id) const {
    if (!IsCast(id, DType::kF32)) return id;
    const ValueId below = chain_.op(id).operands[0];
    return Is16Bit(TypeOf(below).dtype) ? below : id;
  }
  static bool Is16Bit(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

  // Of an f32 sum to 16 bits.
  void TakeCast(FoundAllReduce* found) const {
    const ValueId user = OnlyUser(found->end);
    if (found->problem.element != DType::kF32 || user < 0) return;
    if (chain_.op(user).kind != OpKind::kCast || !Is16Bit(TypeOf(user).dtype)) return;
    found->problem.result = TypeOf(user).dtype;
    found->values.push_back(user);
    found->end = user;
  }

  // The sum as the chain has it, widened or not, plus a matrix of the result's type. A sum in f32
  // of 16-bit terms is taken where the chain rounds it.
  void TakeResidual(FoundAllReduce* found) const {
    AllReduceProblem& p = found->problem;
    std::vector<ValueId> values;
    ValueId sum = found->end;
    if (IsCast(OnlyUser(sum), DType::kF32)) {
      sum = OnlyUser(sum);
      values.push_back(sum);
    }
    const ValueId add = OnlyUser(sum);
    if (add < 0) return;
    const Op& op = chain_.op(add);
    if (op.kind != OpKind::kBinary || op.binary != BinaryKind::kAdd) return;
    const ValueId other = op.operands[0] == sum ? op.operands[1] : op.operands[0];
    if (other == sum || TypeOf(other).dims != op.type.dims) return;
    const ValueId residual = SkipWidening(other);
    const DType dtype = TypeOf(residual).dtype;
    values.push_back(add);
    ValueId end = add;
    if (IsCast(OnlyUser(add), dtype)) {
      end = OnlyUser(add);
      values.push_back(end);
    }
    // The sum is rounded before, or its only rounding is that of the whole.
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

  const Chain& chain_;
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> claimed_;
};

}  // namespace

std::vector<FoundAllReduce> FindAllReduces(const Chain& chain, const std::vector<bool>& claimed,
                                           std::map<ValueId, std::string>* refused) {
  std::vector<FoundAllReduce> all;
  if (chain.ranks() == 1) return all;
  Finder finder(chain, claimed);
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (chain.op(id).kind != OpKind::kAllReduce) continue;
    absl::StatusOr<FoundAllReduce> found = finder.Of(id);
    if (found.ok()) {
      all.push_back(*std::move(found));
    } else if (refused != nullptr) {
      (*refused)[id] = std::string(found.status().message());
    }
  }
  return all;
}

}  // namespace sinter
