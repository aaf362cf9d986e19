#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "src/base/status.h"
#include "src/chain/op.h"
#include "src/standin/row_kernel.h"

namespace sinter {
namespace {

using Kind = RowValue::Kind;

constexpr int64_t kVector = 8;  // elements of a thread's access

// The dims of rows, joined where all places walk two of them as one.
class RowLevels {
 public:
  explicit RowLevels(const RowValues& rows);
  // FAILED_PRECONDITION: more than two are left.
  absl::Status Check() const;
  int64_t rows_per_m() const { return rows_per_m_; }
  int64_t inner_rows() const { return levels_.size() == 2 ? levels_[1].extent : 1; }
  int64_t Outer(const RowPlace& p) const {
    return levels_.empty() ? 0 : p.steps[levels_.front().dim];
  }
  int64_t Inner(const RowPlace& p) const {
    return levels_.size() < 2 ? 0 : p.steps[levels_.back().dim];
  }

 private:
  struct Level {
    int64_t extent;
    size_t dim;  // whose steps are the level's
  };
  std::vector<Level> levels_;
  int64_t rows_per_m_ = 1;
};

RowLevels::RowLevels(const RowValues& rows) {
  const RowDomain& domain = rows.domain;
  for (size_t d = 0; d < domain.last(); ++d) {
    rows_per_m_ *= domain.dims[d];
    if (domain.dims[d] > 1 || (d == 0 && domain.of_m)) levels_.push_back({domain.dims[d], d});
  }
  for (size_t i = 0; i + 1 < levels_.size();) {
    const Level outer = levels_[i], inner = levels_[i + 1];
    const auto joins = [&](const RowPlace& p) {
      return p.steps[outer.dim] == p.steps[inner.dim] * inner.extent;
    };
    bool all = true;
    for (const RowValue& v : rows.values) all &= v.kind != RowValue::Kind::kInput || joins(v.place);
    for (const RowResult& r : rows.results) all &= joins(r.place);
    if (!all) {
      ++i;
      continue;
    }
    levels_[i + 1].extent *= outer.extent;
    levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(i));
    if (i > 0) --i;
  }
}

absl::Status RowLevels::Check() const {
  if (levels_.size() <= 2) return absl::OkStatus();
  return FailedPrecondition("no stand-in walks rows whose three dims lie apart");
}

RowType TypeOf(DType type) {
  return type == DType::kF32 ? kRowFloat32 : type == DType::kBF16 ? kRowBFloat16 : kRowFloat16;
}

absl::Status TooMany(absl::string_view what, int bound) {
  return FailedPrecondition("no stand-in takes a body of more than ", bound, " ", what);
}

// The op that gives a op b from b and a; -1: none.
int Turned(RowOp op) {
  if (op == RowOpOf(BinaryKind::kSub)) return kRowSubFrom;
  if (op == RowOpOf(BinaryKind::kDiv)) return kRowDivInto;
  if (op == kRowFastDiv) return kRowFastDivInto;
  if (op == kRowEq || op == kRowNe) return op;
  if (op <= kRowBinary) return -1;
  return TraitsOf(static_cast<BinaryKind>(op - kRowBinary)).commutes ? op : -1;
}

class Writer {
 public:
  Writer(const RowValues& rows, int inputs, const std::vector<DType>& types)
      : rows_(rows), levels_(rows), inputs_(inputs), types_(types) {
    const size_t count = rows.values.size();
    left_.assign(count, 0);
    slot_of_.assign(count, -1);
    number_of_.assign(count, -1);
    for (const RowValue& value : rows.values) {
      for (int operand : value.operands) {
        if (operand >= 0) ++left_[Index(operand)];
      }
    }
    for (const RowResult& result : rows.results) left_[Index(result.value)] += result.in_place;
  }

  absl::StatusOr<RowSteps> Run() {
    SINTER_RETURN_IF_ERROR(levels_.Check());
    RowProgram& p = out_.program;
    p.columns = static_cast<int>(rows_.domain.columns());
    p.rows_per_m = static_cast<int>(levels_.rows_per_m());
    p.inner_rows = static_cast<int>(levels_.inner_rows());
    if (inputs_ + static_cast<int>(types_.size()) > kRowBuffers) {
      return TooMany("inputs and outputs", kRowBuffers);
    }
    for (size_t v = 0; v < rows_.values.size(); ++v) {
      Compute(static_cast<int>(v));
      for (const RowResult& result : rows_.results) {
        if (result.value == static_cast<int>(v) && !result.in_place) Store(result);
      }
    }
    for (const RowResult& result : rows_.results) {
      if (result.in_place) Store(result);
      if (result.in_place) Used(result.value);
    }
    SINTER_RETURN_IF_ERROR(status_);
    p.count = steps_;
    out_.slots = static_cast<int>(slots_.size());
    return out_;
  }

 private:
  struct Operand {
    RowOperandKind kind = kRowConstant;
    int index = 0;
    float constant = 0;
  };

  static size_t Index(int v) { return static_cast<size_t>(v); }
  const RowValue& Of(int v) const { return rows_.values[Index(v)]; }
  bool IsInput(int v) const { return Of(v).kind == Kind::kInput; }

  RowStep* Step(RowStepKind what, RowOp op) {
    if (steps_ == kRowSteps) {
      status_.Update(TooMany("steps", kRowSteps));
      --steps_;
    }
    RowStep& step = out_.program.steps[steps_++];
    step = RowStep{};
    step.what = what;
    step.op = op;
    step.kind = step.other_kind = kRowConstant;
    return &step;
  }
  static void Set(const Operand& from, RowStep* step) {
    step->kind = from.kind;
    step->index = static_cast<unsigned char>(from.index);
    step->constant = from.constant;
  }

  int ViewOf(int buffer, DType type, const RowPlace& place) {
    RowView view{};
    view.base = place.base;
    view.outer = levels_.Outer(place);
    view.inner = levels_.Inner(place);
    view.column = place.steps[rows_.domain.last()];
    view.buffer = static_cast<unsigned char>(buffer);
    view.type = TypeOf(type);
    view.vectors = view.column == 1 && rows_.domain.columns() % kVector == 0 &&
                   view.base % kVector == 0 && view.outer % kVector == 0 &&
                   view.inner % kVector == 0;
    const auto key = std::make_pair(buffer, place);
    const auto known = views_.find(key);
    if (known != views_.end()) return known->second;
    const int index = static_cast<int>(views_.size());
    if (index == kRowViews) status_.Update(TooMany("places in memory", kRowViews));
    if (index >= kRowViews) return 0;
    out_.program.views[index] = view;
    views_[key] = index;
    return index;
  }
  int ViewOf(int v) { return ViewOf(Of(v).input, Of(v).type, Of(v).place); }

  int NewNumber() {
    if (numbers_ == kRowNumbers) status_.Update(TooMany("numbers of a row", kRowNumbers));
    if (numbers_ < kRowNumbers) return numbers_++;
    return 0;
  }

  // The operand for a value that is not only in the accumulator.
  Operand At(int v) {
    const RowValue& value = Of(v);
    if (value.kind == Kind::kConstant) return {kRowConstant, 0, value.constant};
    if (value.number) return {kRowNumber, number_of_[Index(v)], 0};
    if (value.kind == Kind::kInput) return {kRowView, ViewOf(v), 0};
    return {kRowSlot, slot_of_[Index(v)], 0};
  }

  void Save(int v) {
    if (v < 0 || IsInput(v) || Of(v).number || slot_of_[Index(v)] >= 0) return;
    size_t slot = 0;
    while (slot < slots_.size() && slots_[slot] >= 0) ++slot;
    if (slot == slots_.size()) slots_.push_back(v);
    slots_[slot] = v;
    slot_of_[Index(v)] = static_cast<int>(slot);
    Step(kRowSaves, kRowLoad)->to = static_cast<unsigned char>(slot);
  }
  // Keeps what the accumulator has if it is read again.
  void Keep() {
    if (held_ >= 0 && left_[Index(held_)] > 0) Save(held_);
  }
  void Load(int v) {
    if (held_ == v) return;
    Keep();
    Set(At(v), Step(kRowOnValues, kRowLoad));
    held_ = v;
  }
  void Used(int v) {
    if (v < 0 || --left_[Index(v)] > 0 || slot_of_[Index(v)] < 0) return;
    slots_[Index(slot_of_[Index(v)])] = -1;
  }

  void Compute(int v) {
    const RowValue& value = Of(v);
    if (value.kind == Kind::kConstant || (value.kind == Kind::kInput && !value.number)) return;
    if (value.kind == Kind::kReduce) {
      Load(value.operands[0]);
      number_of_[Index(v)] = NewNumber();
      RowStep* const reduce = Step(kRowReduces, value.op);
      reduce->to = static_cast<unsigned char>(number_of_[Index(v)]);
      reduce->constant = value.constant;
      return Used(value.operands[0]);
    }
    value.number ? ComputeNumber(v) : ComputeValues(v);
    for (int operand : value.operands) Used(operand);
  }

  // Number `to` of the row, loaded from `from`.
  Operand Loaded(const Operand& from, int to) {
    RowStep* const load = Step(kRowOnNumbers, kRowLoad);
    Set(from, load);
    load->to = static_cast<unsigned char>(to);
    return {kRowNumber, to, 0};
  }

  void ComputeNumber(int v) {
    const RowValue& value = Of(v);
    const int to = number_of_[Index(v)] = NewNumber();
    if (value.kind == Kind::kInput) {
      Loaded({kRowView, ViewOf(v), 0}, to);
      return;
    }
    if (value.op == kRowSelect) {
      status_.Update(FailedPrecondition("no stand-in selects numbers of rows"));
      return;
    }
    Operand a = At(value.operands[0]), b;
    if (value.operands[1] >= 0) b = At(value.operands[1]);
    if (a.kind == kRowConstant && b.kind == kRowConstant && value.operands[1] >= 0) {
      a = Loaded(a, NewNumber());
    }
    RowStep* const step =
        Step(kRowOnNumbers, value.op == kRowFastDiv ? RowOpOf(BinaryKind::kDiv) : value.op);
    Set(a, step);
    if (b.kind == kRowConstant && value.operands[1] >= 0) step->constant = b.constant;
    step->other_kind = b.kind;
    step->other = static_cast<unsigned char>(b.index);
    step->to = static_cast<unsigned char>(to);
  }

  // Before a step that overwrites the accumulator: what it holds is kept if it is read after it.
  void Overwrite(int v, const RowValue& value) {
    int here = 0;
    for (int operand : value.operands) here += operand == held_;
    if (left_[Index(held_)] > here) Save(held_);
    held_ = v;
  }

  void ComputeValues(int v) {
    const RowValue& value = Of(v);
    int a = value.operands[0], b = value.operands[1];
    RowOp op = value.op;
    const bool two = b >= 0 && op != kRowSelect;
    const bool turn = two && Turned(op) >= 0 && held_ != a && (held_ == b || Of(a).number);
    if (turn) {
      std::swap(a, b);
      op = static_cast<RowOp>(Turned(op));
    }
    Load(a);
    for (int i = 1; i < 3; ++i) {
      if (value.operands[i] == a || b == a) Save(a);
    }
    if (op == kRowSelect) return Select(v, value);
    Operand operand;
    if (two) operand = At(b);
    Overwrite(v, value);
    Set(operand, Step(kRowOnValues, op));
  }

  void Select(int v, const RowValue& value) {
    Operand yes = At(value.operands[1]);
    const Operand no = At(value.operands[2]);
    if (yes.kind == kRowConstant && no.kind == kRowConstant) yes = Loaded(yes, NewNumber());
    Overwrite(v, value);
    RowStep* const step = Step(kRowOnValues, kRowSelect);
    Set(yes, step);
    if (no.kind == kRowConstant) step->constant = no.constant;
    step->other_kind = no.kind;
    step->other = static_cast<unsigned char>(no.index);
  }

  void Store(const RowResult& result) {
    const DType type = types_[Index(result.output)];
    const int view = ViewOf(inputs_ + result.output, type, result.place);
    if (result.number) {
      RowStep* const step = Step(kRowStoresNumber, kRowLoad);
      Set(At(result.value), step);
      step->to = static_cast<unsigned char>(view);
      return;
    }
    Load(result.value);
    Step(kRowStores, kRowLoad)->index = static_cast<unsigned char>(view);
  }

  const RowValues& rows_;
  const RowLevels levels_;
  const int inputs_;
  const std::vector<DType>& types_;
  RowSteps out_;
  int steps_ = 0, numbers_ = 0;
  int held_ = -1;                         // in the accumulator
  std::vector<int> left_;                 // reads of each value that are to come
  std::vector<int> slot_of_, number_of_;  // of each value
  std::vector<int> slots_;                // what each holds; -1: free
  std::map<std::pair<int, RowPlace>, int> views_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<RowSteps> MakeRowSteps(const RowValues& values, int inputs,
                                      const std::vector<DType>& output_types) {
  return Writer(values, inputs, output_types).Run();
}

}  // namespace sinter
