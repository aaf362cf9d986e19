#include <algorithm>
#include <utility>

#include "src/normal/rules.h"

namespace sinter {
namespace {

Dim One() { return Dim::Constant(1); }

// Rows: the product of leading axes, count * M^symbols.
struct RowCount {
  int64_t count = 1;
  int symbols = 0;
  SINTER_FIELDS(RowCount, count, symbols);
};

RowCount CountRows(const std::vector<Dim>& dims, int lead) {
  RowCount rows;
  for (int i = 0; i < lead; ++i) {
    const Dim dim = dims[static_cast<size_t>(i)];
    dim.symbolic ? ++rows.symbols : static_cast<int>(rows.count *= dim.value);
  }
  return rows;
}

// The leading axes of `to` that are the `lead` leading ones of `from`, otherwise divided; -1 if
// there are none. If axes of extent 1 leave a choice, as many axes follow them as in `from`.
int LeadOfReshape(const std::vector<Dim>& from, int lead, const std::vector<Dim>& to) {
  const RowCount rows = CountRows(from, lead);
  const int behind = static_cast<int>(from.size()) - lead;
  int found = -1;
  for (int i = 0; i <= static_cast<int>(to.size()); ++i) {
    if (!(CountRows(to, i) == rows)) continue;
    if (found < 0 || static_cast<int>(to.size()) - i == behind) found = i;
  }
  return found;
}

int64_t LargestDivisor(int64_t value, int64_t most) {
  for (int64_t divisor = most; divisor > 1; --divisor) {
    if (value % divisor == 0) return divisor;
  }
  return 1;
}

bool KeepsRows(const Op& op, const std::vector<Dim>& from, int lead) {
  for (int i = 0; i < lead; ++i) {
    const auto axis = static_cast<size_t>(i);
    if (op.kind == OpKind::kTranspose && op.axes[axis] != i) return false;
    if (op.kind == OpKind::kSlice && op.type.dims[axis] != from[axis]) return false;
  }
  return true;
}

bool TakesRowsByIds(const Op& op) { return op.kind == OpKind::kGather && op.axis == 0; }

// Values with the same rows: each is made row by row of the others, or of values without rows.
// Rows are leading axes, of which products take all but one.
class Rows {
 public:
  explicit Rows(NormalGraph& graph)
      : graph_(graph),
        users_(graph.Users()),
        lead_(static_cast<size_t>(graph.size()), -1),
        part_(static_cast<size_t>(graph.size()), -1) {}

  // Relabels the rows around all products, and in other places the rows with M after another axis,
  // that need it; true if any do.
  bool Run() {
    for (const ValueId id : graph_.Order()) {
      if (IsPlain(graph_.op(id))) StartAt(id, graph_.type(id).rank() - 1);
    }
    for (const ValueId id : graph_.Order()) {
      const int axis = SymbolicAxis(graph_.type(id).dims);
      if (axis > 0) StartAt(id, axis + 1);
    }
    if (rows_.empty()) return false;
    Relabel();
    return true;
  }

 private:
  bool IsPlain(const Op& op) const { return IsRowProduct(graph_, op) && !op.transpose_a; }

  // Looks at all that has the rows of a value.
  void StartAt(ValueId id, int lead) {
    if (LeadOf(id) >= 0) return;
    members_.clear();
    fits_ = true;
    Visit(id, lead);
    for (size_t next = 0; next < members_.size(); ++next) Spread(members_[next]);
    std::vector<Dim> rows;
    if (!fits_ || !IsTroubled() || !CheckMembers(&rows)) return;
    for (const ValueId member : members_) part_[At(member)] = static_cast<int>(rows_.size());
    rows_.push_back(std::move(rows));
  }

  static size_t At(ValueId id) { return static_cast<size_t>(id); }
  int LeadOf(ValueId id) const { return lead_[At(id)]; }
  // Whether its rows change.
  bool IsMember(ValueId id) const { return part_[At(id)] >= 0; }
  const std::vector<Dim>& RowsOf(ValueId id) const { return rows_[At(part_[At(id)])]; }

  void Visit(ValueId id, int lead) {
    if (lead < 0 || graph_.type(id).dims.empty()) return;  // any op takes a single number
    int& known = lead_[At(id)];
    if (known == lead) return;
    if (known >= 0) {
      fits_ = false;
      return;
    }
    known = lead;
    members_.push_back(id);
  }

  // To the operands and the users of a member.
  void Spread(ValueId id) {
    const int lead = LeadOf(id);
    const Op& op = graph_.op(id);
    for (const ValueId operand : op.operands) Visit(operand, LeadOfOperand(op, operand, lead));
    for (const ValueId user : users_[At(id)]) {
      if (graph_.op(user).kind == OpKind::kScatter) SpreadBeside(graph_.op(user), id, lead);
      Visit(user, LeadOfUser(graph_.op(user), id, lead));
    }
  }

  // A scatter's ids and what it writes have the same rows, which its result has not.
  void SpreadBeside(const Op& scatter, ValueId id, int lead) {
    if (id == scatter.operands[0] || lead > graph_.type(scatter.operands[1]).rank()) return;
    Visit(scatter.operands[1], lead);
    Visit(scatter.operands[2], lead);
  }

  // Rows of an operand of `op`, whose result has `lead` rows; -1 where they are others.
  int LeadOfOperand(const Op& op, ValueId operand, int lead) const {
    const std::vector<Dim>& dims = graph_.type(operand).dims;
    if (IsElementWise(op) || op.kind == OpKind::kConcat || IsCollective(op)) {
      return dims.empty() || (op.axis >= 0 && op.axis < lead) ? -1 : lead;
    }
    switch (op.kind) {
      case OpKind::kMatmul:
        return IsPlain(op) && operand == op.operands[0] ? lead : -1;
      case OpKind::kBroadcast:
        return dims.size() == op.type.dims.size() && SameRows(dims, op.type.dims, lead) ? lead : -1;
      case OpKind::kReduce:
        return op.axes.front() >= lead ? lead : -1;
      case OpKind::kGather:
        return GatherKeepsRows(op, operand, dims, lead) ? lead : -1;
      case OpKind::kTopK:
      case OpKind::kScan:
        return lead < static_cast<int>(dims.size()) ? lead : -1;
      case OpKind::kTranspose:
      case OpKind::kSlice:
        return KeepsRows(op, dims, lead) ? lead : -1;
      case OpKind::kReshape:
        return LeadOfReshape(op.type.dims, lead, dims);
      default:
        return -1;
    }
  }

  // Rows of `user`, one of whose operands has `lead`; -1 where they are others.
  int LeadOfUser(const Op& user, ValueId operand, int lead) const {
    const std::vector<Dim>& dims = graph_.type(operand).dims;
    if (user.kind == OpKind::kReshape) return LeadOfReshape(dims, lead, user.type.dims);
    if (user.kind == OpKind::kMatmul && user.operands[1] == operand) return -1;
    return LeadOfOperand(user, operand, lead) == lead ? lead : -1;
  }

  // Ids have the rows of the gathered value; so has a value whose single elements are taken.
  static bool GatherKeepsRows(const Op& op, ValueId operand, const std::vector<Dim>& dims,
                              int lead) {
    if (op.axis > 0) return lead <= op.axis;
    return operand == op.operands[1] && operand != op.operands[0] &&
           lead <= static_cast<int>(dims.size());
  }

  static bool SameRows(const std::vector<Dim>& a, const std::vector<Dim>& b, int lead) {
    return std::equal(a.begin(), a.begin() + lead, b.begin());
  }

  // Whether M follows another axis, a reshape divides the rows otherwise, or the first axis is
  // longer than products take: of two, the second counts rows of each index of the first.
  bool IsTroubled() const {
    return std::any_of(members_.begin(), members_.end(), [&](ValueId id) {
      const Op& op = graph_.op(id);
      if (SymbolicAxis(op.type.dims) > 0) return true;
      if (IsPlain(op) && op.type.dims[0].value > kLargestBucket) return true;
      if (op.kind != OpKind::kReshape) return false;
      const std::vector<Dim>& from = graph_.type(op.operands[0]).dims;
      const int below = LeadOf(op.operands[0]), lead = LeadOf(id);
      return below >= 0 && (below != lead || !SameRows(from, op.type.dims, lead));
    });
  }

  // Whether all rows are M times a number, and may change. Sets the new ones.
  bool CheckMembers(std::vector<Dim>* new_rows) const {
    const ValueId first = members_.front();
    const RowCount rows = CountRows(graph_.type(first).dims, LeadOf(first));
    if (rows.symbols > 1) return false;
    if (rows.symbols == 1) new_rows->push_back(Dim::M());
    if (rows.symbols == 0 && rows.count > kLargestBucket) {
      new_rows->push_back(Dim::Constant(LargestDivisor(rows.count, kLargestBucket)));
      new_rows->push_back(Dim::Constant(rows.count / new_rows->front().value));
    } else if (rows.count != 1 || rows.symbols == 0) {
      new_rows->push_back(Dim::Constant(rows.count));
    }
    return std::all_of(members_.begin(), members_.end(), [&](ValueId id) {
      const Op& op = graph_.op(id);
      const std::vector<Dim>& dims = op.type.dims;
      if (!(CountRows(dims, LeadOf(id)) == rows)) return false;
      return dims.size() - At(LeadOf(id)) + new_rows->size() <= kMaxRank;
    });
  }

  // Whether an input and the result that may be stored over it become one type.
  bool ChangeAlike(ValueId input, const NormalResult& result) const {
    if (!IsMember(input) || part_[At(input)] != part_[At(result.value)]) return false;
    NormalLayout layout{graph_.type(input).dims, graph_.op(input).strides, 0};
    return LeadOf(input) == LeadOf(result.value) &&
           ReshapeLayout(NewDims(input, RowsOf(input)), &layout);
  }

  // Whether a result that may be stored over an input keeps its type.
  bool KeepsType(ValueId input) const {
    return std::any_of(
        graph_.results().begin(), graph_.results().end(), [&](const NormalResult& result) {
          return result.alias == graph_.op(input).input && !ChangeAlike(input, result);
        });
  }

  std::vector<Dim> NewDims(ValueId id, const std::vector<Dim>& rows) const {
    const std::vector<Dim>& dims = graph_.type(id).dims;
    std::vector<Dim> result = rows;
    result.insert(result.end(), dims.begin() + LeadOf(id), dims.end());
    return result;
  }

  void Relabel() {
    const std::vector<ValueId> order = graph_.Order();
    std::vector<bool> keep;  // by result: whether its type stays
    for (const NormalResult& result : graph_.results()) keep.push_back(MustKeep(result, order));
    now_.assign(lead_.size(), -1);
    old_.assign(lead_.size(), -1);
    for (const ValueId id : order) {
      graph_.WorkOn(id);
      if (IsMember(id)) {
        now_[At(id)] = Relabelled(id);
      } else {
        old_[At(id)] = WithOldOperands(id);
      }
    }
    std::vector<ValueId> taken;
    for (size_t i = 0; i < graph_.results().size(); ++i) RelabelResult(i, keep[i], &taken);
  }

  // Whether a result may be stored over an input that keeps its type.
  bool MustKeep(const NormalResult& result, const std::vector<ValueId>& order) const {
    return std::any_of(order.begin(), order.end(), [&](ValueId id) {
      return graph_.op(id).kind == OpKind::kInput && graph_.op(id).input == result.alias &&
             !ChangeAlike(id, result);
    });
  }

  // The value with its own rows, as ops read it that keep theirs.
  ValueId Old(ValueId id) {
    ValueId& old = old_[At(id)];
    if (old >= 0) return old;
    const ValueId now = now_[At(id)];
    return old = graph_.type(now) == graph_.type(id)
                     ? now
                     : graph_.AddView(OpKind::kReshape, now, graph_.type(id).dims);
  }

  ValueId WithOldOperands(ValueId id) {
    Op op = graph_.op(id);
    const bool relabelled = op.kind == OpKind::kScatter && IsRelabelledBeside(op);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      op.operands[i] = relabelled && i > 0 ? now_[At(op.operands[i])] : Old(op.operands[i]);
    }
    return op.operands == graph_.op(id).operands ? id : graph_.Add(std::move(op));
  }

  // Whether ids and the written rows change alike.
  bool IsRelabelledBeside(const Op& scatter) const {
    const ValueId ids = scatter.operands[1], rows = scatter.operands[2];
    return IsMember(ids) && IsMember(rows) && part_[At(ids)] == part_[At(rows)] &&
           LeadOf(ids) == LeadOf(rows) && LeadOf(ids) <= graph_.type(ids).rank();
  }

  ValueId Relabelled(ValueId id) {
    const std::vector<Dim> dims = NewDims(id, RowsOf(id));
    if (graph_.op(id).kind == OpKind::kInput) return RelabelledInput(id, dims);
    if (!TakesRows(id)) return graph_.AddView(OpKind::kReshape, WithOldOperands(id), dims);
    Op op = graph_.op(id);
    const int shift = static_cast<int>(RowsOf(id).size()) - LeadOf(id);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      ValueId& operand = op.operands[i];
      const bool weight = (op.kind == OpKind::kMatmul && i == 1) || (TakesRowsByIds(op) && i == 0);
      operand = IsMember(operand) && !weight ? now_[At(operand)] : Old(operand);
    }
    if (op.kind == OpKind::kBroadcast) ShortenSpread(id, &op);
    if (op.kind == OpKind::kReshape && graph_.type(op.operands[0]).dims == dims) {
      return op.operands[0];
    }
    op.type.dims = dims;
    if (op.axis >= 0 && !TakesRowsByIds(op)) op.axis += shift;
    ShiftAxes(shift, id, &op);
    return graph_.Add(std::move(op));
  }

  // Whether `op`, a member, can be computed with other rows: its operands are members, or have
  // none.
  bool TakesRows(ValueId id) const {
    const Op& op = graph_.op(id);
    const int lead = LeadOf(id);
    if (op.kind == OpKind::kIota) return op.axis >= lead;
    if (op.kind == OpKind::kBroadcast && !IsMember(op.operands[0])) {
      const std::vector<Dim>& from = graph_.type(op.operands[0]).dims;
      const size_t behind = op.type.dims.size() - static_cast<size_t>(lead);
      if (from.size() <= behind) return true;
      return std::all_of(from.begin(), from.end() - static_cast<std::ptrdiff_t>(behind),
                         [](Dim dim) { return dim == One(); });
    }
    // Only one id: the rows are the table's.
    if (TakesRowsByIds(op) && graph_.type(op.operands[1]).dims.empty()) return false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      if (op.kind == OpKind::kMatmul && i == 1) continue;
      if (TakesRowsByIds(op) && i == 0) continue;
      if (graph_.type(operand).dims.empty()) continue;
      const int wanted =
          op.kind == OpKind::kReshape ? LeadOf(operand) : LeadOfOperand(op, operand, lead);
      if (part_[At(operand)] != part_[At(id)] || wanted < 0 || LeadOf(operand) != wanted)
        return false;
      if (op.kind == OpKind::kReshape &&
          LeadOfReshape(graph_.type(operand).dims, wanted, op.type.dims) != lead) {
        return false;
      }
    }
    return op.kind != OpKind::kMatmul || IsPlain(op);
  }

  // The operand of a broadcast without its leading axes of extent 1.
  void ShortenSpread(ValueId id, Op* op) {
    if (IsMember(graph_.op(id).operands[0])) return;
    const ValueId from = op->operands[0];
    const std::vector<Dim> dims = graph_.type(from).dims;
    const size_t behind = op->type.dims.size() - At(LeadOf(id));
    if (dims.size() <= behind) return;
    op->operands[0] = graph_.AddView(
        OpKind::kReshape, from,
        std::vector<Dim>(dims.end() - static_cast<std::ptrdiff_t>(behind), dims.end()));
  }

  void ShiftAxes(int shift, ValueId id, Op* op) const {
    const int lead = LeadOf(id);
    const size_t rows = RowsOf(id).size();
    if (op->kind == OpKind::kReduce) {
      for (int32_t& axis : op->axes) axis += shift;
    }
    if (op->kind == OpKind::kTranspose) {
      std::vector<int32_t> axes;
      for (int32_t i = 0; i < static_cast<int32_t>(rows); ++i) axes.push_back(i);
      for (size_t i = static_cast<size_t>(lead); i < op->axes.size(); ++i) {
        axes.push_back(op->axes[i] + shift);
      }
      op->axes = std::move(axes);
    }
    if (op->kind == OpKind::kSlice) {
      const auto relabel = [&](int64_t of_row, std::vector<int64_t>* list) {
        list->erase(list->begin(), list->begin() + lead);
        list->insert(list->begin(), rows, of_row);
      };
      relabel(0, &op->starts);
      relabel(1, &op->steps);
    }
  }

  ValueId RelabelledInput(ValueId id, const std::vector<Dim>& dims) {
    if (graph_.type(id).dims == dims) return id;
    const Op& op = graph_.op(id);
    NormalLayout layout{op.type.dims, op.strides, 0};
    if (KeepsType(id) || !ReshapeLayout(dims, &layout)) {
      return graph_.AddView(OpKind::kReshape, id, dims);
    }
    const ValueId input = graph_.AddInput(id, {op.type.dtype, dims}, layout.strides, 0);
    graph_.MoveAlias(id, input);
    return input;
  }

  // `keep`: whether its type stays. `taken`: values of the results before.
  void RelabelResult(size_t i, bool keep, std::vector<ValueId>* taken) {
    const NormalResult result = graph_.results()[i];
    ValueId value = -1;
    graph_.WorkOn(result.value);
    NormalLayout layout{graph_.type(result.value).dims, result.strides, 0};
    if (IsMember(result.value)) {
      const ValueId now = now_[At(result.value)];
      const bool stored = !graph_.op(now).operands.empty() &&
                          std::find(taken->begin(), taken->end(), now) == taken->end();
      if (!keep && ReshapeLayout(graph_.type(now).dims, &layout)) {
        value = stored ? now : graph_.AddView(OpKind::kReshape, now, layout.dims);
      } else if (!stored) {
        value = graph_.AddView(OpKind::kReshape, now, layout.dims);
      }
    }
    if (value < 0) value = Old(result.value);
    taken->push_back(value);
    graph_.SetResult(i, value, layout.strides);
  }

  NormalGraph& graph_;
  const std::vector<std::vector<ValueId>> users_;
  std::vector<int> lead_;               // by value: its leading axes that are rows; -1: none
  std::vector<int> part_;               // by value: which of rows_ it gets; -1: it stays
  std::vector<ValueId> members_;        // of the value looked at
  bool fits_ = true;                    // whether each of them has one lead
  std::vector<std::vector<Dim>> rows_;  // new ones
  std::vector<ValueId> now_, old_;      // by value: with new rows; with its own
};

}  // namespace

bool RowsOfM(NormalGraph& graph) { return Rows(graph).Run(); }

}  // namespace sinter
