#include "src/reference/evaluator.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace sinter::reference {
namespace {

class Evaluator {
 public:
  explicit Evaluator(const Pass& pass)
      : pass_(pass),
        chain_(*pass.chain),
        values_(chain_.ops().size()),
        uses_(chain_.ops().size(), 0),
        rows_(pass.rows == nullptr ? pass.m : static_cast<int64_t>(pass.rows->size())) {
    for (int i = 0; i < chain_.num_outputs(); ++i) roots_.push_back(RootOf(i));
    CountUses();
  }

  bool Needs(ValueId id) const { return uses_[id] > 0; }
  const View& OperandOf(ValueId id) const { return In(chain_.op(id), 0).view; }
  // The value of an op, from its operands or as it is given.
  void Take(ValueId id) { Take(id, Compute(chain_.op(id))); }
  void Take(ValueId id, Tensor value) {
    values_[id] = std::move(value);
    for (ValueId operand : chain_.op(id).operands) Release(operand);
  }

  std::vector<Tensor> Results() const {
    std::vector<Tensor> results;
    for (int i = 0; i < chain_.num_outputs(); ++i) {
      results.push_back(pass_.wanted[i] ? values_[roots_[i]] : Tensor());
    }
    return results;
  }

 private:
  // The value that output i is read from.
  ValueId RootOf(int i) const {
    const ValueId id = chain_.outputs()[i].value;
    const Op& op = chain_.op(id);
    const bool rounds = op.kind == OpKind::kCast && IsFloat(op.type.dtype) &&
                        IsFloat(chain_.op(op.operands[0]).type.dtype);
    return rounds && pass_.skip_final_cast ? op.operands[0] : id;
  }

  // Only what the wanted outputs need has uses.
  void CountUses() {
    for (int i = 0; i < chain_.num_outputs(); ++i) {
      if (pass_.wanted[i]) ++uses_[roots_[i]];
    }
    for (size_t id = uses_.size(); id-- > 0;) {
      if (uses_[id] == 0) continue;
      for (ValueId operand : chain_.ops()[id].operands) ++uses_[operand];
    }
  }

  void Release(ValueId id) {
    if (--uses_[id] == 0) values_[id] = Tensor();
  }

  std::vector<int64_t> DimsOf(const Op& op) const {
    std::vector<int64_t> dims;
    for (Dim dim : op.type.dims) dims.push_back(dim.At(rows_));
    return dims;
  }

  const Tensor& In(const Op& op, int i) const { return values_[op.operands[i]]; }

  Tensor Compute(const Op& op) const {
    switch (op.kind) {
      case OpKind::kInput:
        return InputTensor(op);
      case OpKind::kScalar: {
        Tensor result = MakeTensor({});
        (*result.owned)[0] = op.scalar;
        return result;
      }
      case OpKind::kIota:
        return Iota(DimsOf(op), op.axis, op.type.dims[op.axis].symbolic ? pass_.rows : nullptr,
                    pass_.threads);
      case OpKind::kMatmul:
        return Matmul(MaybeTransposed(In(op, 0).view, op.transpose_a),
                      MaybeTransposed(In(op, 1).view, op.transpose_b), pass_.threads);
      case OpKind::kScaledMatmul:
        return ScaledMatmul(In(op, 0).view, In(op, 1).view, In(op, 2).view, In(op, 3).view,
                            pass_.threads);
      case OpKind::kGroupedMatmul:
        if (IsScaledGrouped(op)) {
          return ScaledGroupedMatmul(In(op, 0).view, In(op, 1).view, In(op, 2).view, In(op, 3).view,
                                     In(op, 4).view, pass_.threads);
        }
        return (IsByEnds(op) ? GroupedMatmulByEnds : GroupedMatmul)(
            In(op, 0).view, MaybeTransposed(In(op, 1).view, op.transpose_b), In(op, 2).view,
            pass_.threads);
      case OpKind::kConv2d:
        return Convolve(In(op, 0).view, In(op, 1).view, op.conv, pass_.threads);
      case OpKind::kWindow:
        return Windows(In(op, 0).view, In(op, 1).view, op.conv, DimsOf(op), pass_.threads);
      case OpKind::kReduce:
        return Reduce(op, chain_.op(op.operands[0]).type.dtype, In(op, 0).view, DimsOf(op),
                      pass_.threads);
      case OpKind::kBroadcast:
        return Broadcast(op);
      case OpKind::kTranspose:
        return Transpose(op);
      case OpKind::kReshape:
        return Reshape(op);
      case OpKind::kSlice:
        return Slice(op);
      case OpKind::kConcat:
        return Concat(op);
      case OpKind::kGather:
        return Gather(In(op, 0).view, In(op, 1).view, op.axis, pass_.threads);
      case OpKind::kScatter:
        return Scatter(In(op, 0).view, In(op, 1).view, In(op, 2).view, pass_.threads);
      case OpKind::kTopK:
        return TopK(In(op, 0).view, DimsOf(op), pass_.threads);
      case OpKind::kScan:
        return RunningSums(In(op, 0).view, op.type.dtype, pass_.threads);
      case OpKind::kRandom:
        return Random(In(op, 0).view, In(op, 1).view, DimsOf(op), SymbolicAxis(op.type.dims),
                      pass_.m, pass_.rows);
      default:
        return Map(op);
    }
  }

  Tensor InputTensor(const Op& op) const {
    View view{(*pass_.inputs)[op.input], StorageOf(op.type.dtype), {}, {}};
    for (Dim dim : op.type.dims) view.dims.push_back(dim.At(pass_.m));
    for (Stride stride : op.strides) view.strides.push_back(stride.At(pass_.m));
    const int axis = SymbolicAxis(op.type.dims);
    if (pass_.rows == nullptr || axis < 0) return {view, nullptr};
    return RowsOfPass(view, axis);
  }

  // The rows of this pass: a view when they follow each other, else a copy.
  Tensor RowsOfPass(View view, int axis) const {
    const std::vector<int64_t>& rows = *pass_.rows;
    view.dims[axis] = 1;
    bool consecutive = true;
    for (size_t i = 1; i < rows.size(); ++i) consecutive &= rows[i] == rows[i - 1] + 1;
    if (consecutive && !rows.empty()) {
      View part = view.Moved(rows[0] * view.strides[axis]);
      part.dims[axis] = rows_;
      return {part, nullptr};
    }
    std::vector<int64_t> dims = view.dims;
    dims[axis] = rows_;
    Tensor result = MakeTensor(dims);
    for (size_t i = 0; i < rows.size(); ++i) {
      CopyInto(view.Moved(rows[i] * view.strides[axis]),
               result.owned->data() + static_cast<int64_t>(i) * result.view.strides[axis],
               result.view.strides, pass_.threads);
    }
    return result;
  }

  static View MaybeTransposed(View view, bool transpose) {
    if (transpose) {
      const int last = view.rank() - 1;
      std::swap(view.dims[last], view.dims[last - 1]);
      std::swap(view.strides[last], view.strides[last - 1]);
    }
    return view;
  }

  Tensor Broadcast(const Op& op) const {
    Tensor result = In(op, 0);
    const View from = result.view;
    result.view.dims = DimsOf(op);
    result.view.strides.assign(result.view.dims.size(), 0);
    const size_t missing = result.view.dims.size() - from.dims.size();
    const std::vector<Dim>& dims = chain_.op(op.operands[0]).type.dims;
    for (size_t i = 0; i < from.dims.size(); ++i) {
      const bool repeats = dims[i] == Dim::Constant(1);
      result.view.strides[i + missing] = repeats ? 0 : from.strides[i];
    }
    return result;
  }

  Tensor Transpose(const Op& op) const {
    Tensor result = In(op, 0);
    const View from = result.view;
    for (size_t i = 0; i < op.axes.size(); ++i) {
      result.view.dims[i] = from.dims[op.axes[i]];
      result.view.strides[i] = from.strides[op.axes[i]];
    }
    return result;
  }

  Tensor Reshape(const Op& op) const {
    Tensor result = In(op, 0);
    if (!result.view.IsContiguous()) result = Materialise(result.view, pass_.threads);
    result.view.dims = DimsOf(op);
    result.view.strides = RowMajorStrides(result.view.dims);
    return result;
  }

  Tensor Slice(const Op& op) const {
    Tensor result = In(op, 0);
    int64_t offset = 0;
    for (size_t i = 0; i < op.starts.size(); ++i) {
      offset += op.starts[i] * result.view.strides[i];
      result.view.strides[i] *= op.steps[i];
    }
    result.view = result.view.Moved(offset);
    result.view.dims = DimsOf(op);
    return result;
  }

  Tensor Concat(const Op& op) const {
    Tensor result = MakeTensor(DimsOf(op));
    int64_t start = 0;
    for (ValueId operand : op.operands) {
      const View& view = values_[operand].view;
      auto* to = result.owned->data();
      if (to != nullptr) to += start * result.view.strides[op.axis];  // null of no elements
      CopyInto(view, to, result.view.strides, pass_.threads);
      start += view.dims[op.axis];
    }
    return result;
  }

  Tensor Map(const Op& op) const {
    if (IsExactCast(chain_, op)) return In(op, 0);
    std::vector<View> views;
    std::vector<DType> dtypes;
    for (ValueId operand : op.operands) {
      views.push_back(values_[operand].view);
      dtypes.push_back(chain_.op(operand).type.dtype);
    }
    return Elementwise(op, dtypes, std::move(views), DimsOf(op), pass_.threads);
  }

  const Pass& pass_;
  const Chain& chain_;
  std::vector<Tensor> values_;
  std::vector<int> uses_;       // that are still to come
  std::vector<ValueId> roots_;  // per output
  int64_t rows_;
};

// The sum of what each rank has of a value of `dtype`, which all ranks get.
Tensor AllReduce(const std::vector<View>& ranks, DType dtype, int threads) {
  Tensor result = MakeTensor(ranks[0].dims);
  std::vector<double>& total = *result.owned;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Tensor part = Materialise(ranks[r], threads);
    for (size_t i = 0; i < total.size(); ++i) {
      const auto sent = static_cast<float>(RoundTo(dtype, (*part.owned)[i]));
      total[i] = r == 0 ? sent : static_cast<float>(total[i]) + sent;
    }
  }
  for (double& value : total) value = RoundTo(dtype, value);
  return result;
}

// What the ranks have, joined along an axis.
Tensor AllGather(const std::vector<View>& ranks, int axis, DType dtype, int threads) {
  const auto at = static_cast<size_t>(axis);
  std::vector<int64_t> dims = ranks[0].dims;
  dims[at] *= static_cast<int64_t>(ranks.size());
  Tensor result = MakeTensor(dims);
  auto* to = result.owned->data();
  for (const View& rank : ranks) {
    CopyInto(rank, to, result.view.strides, threads);
    if (to != nullptr) to += rank.dims[at] * result.view.strides[at];  // null of no elements
  }
  for (double& value : *result.owned) value = RoundTo(dtype, value);
  return result;
}

// The `rank`-th of `count` equal parts along an axis.
Tensor PartOf(const Tensor& whole, int axis, size_t rank, size_t count) {
  const auto at = static_cast<size_t>(axis);
  Tensor part = whole;
  const int64_t extent = part.view.dims[at] / static_cast<int64_t>(count);
  part.view = part.view.Moved(static_cast<int64_t>(rank) * extent * part.view.strides[at]);
  part.view.dims[at] = extent;
  return part;
}

}  // namespace

bool IsExactCast(const Chain& chain, const Op& op) {
  if (op.kind != OpKind::kCast || op.type.dtype != DType::kF32) return false;
  const Op& from = chain.op(op.operands[0]);
  return HoldsFloats(from.type.dtype) &&
         (from.kind == OpKind::kInput || from.kind == OpKind::kCast);
}

std::vector<Tensor> Collect(const Op& op, const std::vector<View>& ranks, int threads) {
  const Tensor all = op.kind == OpKind::kAllGather
                         ? AllGather(ranks, op.axis, op.type.dtype, threads)
                         : AllReduce(ranks, op.type.dtype, threads);
  std::vector<Tensor> results(ranks.size(), all);
  for (size_t r = 0; op.kind == OpKind::kReduceScatter && r < ranks.size(); ++r) {
    results[r] = PartOf(all, op.axis, r, ranks.size());
  }
  return results;
}

std::vector<std::vector<Tensor>> Evaluate(const std::vector<Pass>& passes) {
  std::vector<std::unique_ptr<Evaluator>> ranks;
  for (const Pass& pass : passes) ranks.push_back(std::make_unique<Evaluator>(pass));
  const Chain& chain = *passes.front().chain;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (!ranks.front()->Needs(id)) continue;
    if (!IsCollective(chain.op(id))) {
      for (const auto& rank : ranks) rank->Take(id);
      continue;
    }
    std::vector<View> parts;
    for (const auto& rank : ranks) parts.push_back(rank->OperandOf(id));
    std::vector<Tensor> given = Collect(chain.op(id), parts, passes.front().threads);
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r]->Take(id, std::move(given[r]));
  }
  std::vector<std::vector<Tensor>> results;
  for (const auto& rank : ranks) results.push_back(rank->Results());
  return results;
}

}  // namespace sinter::reference
