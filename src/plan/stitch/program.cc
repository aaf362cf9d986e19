#include "src/plan/stitch/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/plan/stitch/hand_over.h"
#include "src/plan/stitch/in_place.h"
#include "src/plan/stitch/moments.h"
#include "src/plan/stitch/needs.h"
#include "src/plan/stitch/segment.h"
#include "src/plan/stitch/serial.h"
#include "src/plan/stitch/slots.h"

namespace sinter {
namespace {

constexpr int kMostPhases = 4;

bool Contains(const std::vector<int32_t>& axes, size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) != axes.end();
}

// The first axis is outermost. Axes of extent 1 count as either.
bool ReducesTail(const Op& op, const std::vector<Dim>& dims) {
  bool reduced = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (reduced && !Contains(op.axes, i)) return false;
    reduced |= Contains(op.axes, i);
  }
  return reduced;
}

bool ReducesHead(const Op& op, const std::vector<Dim>& dims) {
  bool kept = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (kept && Contains(op.axes, i)) return false;
    kept |= !Contains(op.axes, i);
  }
  return kept;
}

struct Span {
  int64_t elements = 1;
  bool symbolic = false;
};

// Of the axes that are reduced (or kept).
Span SpanOf(const Op& op, const std::vector<Dim>& dims, bool reduced) {
  Span span;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (Contains(op.axes, i) != reduced) continue;
    span.symbolic |= dims[i].symbolic;
    if (!dims[i].symbolic) span.elements *= dims[i].value;
  }
  return span;
}

// M may lead a value's dims and nothing else.
absl::Status CheckRows(const Chain& body) {
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.op(static_cast<ValueId>(id));
    for (size_t i = 1; i < op.type.dims.size(); ++i) {
      if (!op.type.dims[i].symbolic) continue;
      return RefuseOp(static_cast<ValueId>(id), op,
                      absl::StrCat("axis ", i, " is M, only axis 0 may be"));
    }
    for (const Stride& stride : op.strides) {
      if (stride.m_power == 0) continue;
      return RefuseOp(static_cast<ValueId>(id), op, "a stride depends on M");
    }
  }
  return absl::OkStatus();
}

ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program) {
  if (op.kind == OpKind::kMatmul) return ReduceUse::kSerial;
  if (op.kind != OpKind::kReduce) return ReduceUse::kNone;
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const auto is_units = [&](const Span& span) {
    return program.owner >= 0 && span.elements == program.units &&
           span.symbolic == program.units_symbolic;
  };
  if (ReducesTail(op, dims) && is_units(SpanOf(op, dims, false))) return ReduceUse::kRow;
  if (ReducesHead(op, dims) && is_units(SpanOf(op, dims, true))) return ReduceUse::kColumn;
  if (program.owner >= 0 && HasSegments(body, program, op)) return ReduceUse::kSegment;
  return ReduceUse::kSerial;
}

// Makes the phases of a program whose owner and uses are known.
class Builder {
 public:
  Builder(const Chain& body, StitchProgram& program) : body_(body), program_(program) {
    unit_ = space_.AddLoop("u", program.units_symbolic ? 0 : program.units, 1);
    element_ = space_.AddLoop("i", 0, 2);
  }

  absl::Status Run() {
    SINTER_RETURN_IF_ERROR(FindNeeds());
    SINTER_RETURN_IF_ERROR(CheckHanded());
    int phases = 1;
    for (const auto& [id, phase] : column_phases_) phases = std::max(phases, phase + 1);
    for (const int phase : store_phases_) phases = std::max(phases, phase + 1);
    if (phases > kMostPhases) {
      return absl::FailedPreconditionError(
          absl::StrCat("needs ", phases, " phases, at most ", kMostPhases, " are made"));
    }
    program_.phases.resize(static_cast<size_t>(phases));
    for (int phase = 0; phase < phases; ++phase) AddPhase(phase);
    return absl::OkStatus();
  }

 private:
  bool IsHanded(ValueId id) const {
    return std::binary_search(program_.handed.begin(), program_.handed.end(), id);
  }

  StitchRoot::Kind KindOf(ValueId id) const {
    if (IsHanded(id)) return StitchRoot::kHand;
    const ReduceUse use = program_.uses[static_cast<size_t>(id)];
    if (use == ReduceUse::kColumn) return StitchRoot::kColumn;
    return use == ReduceUse::kRow ? StitchRoot::kRow : StitchRoot::kSegment;
  }

  // Sub-roots in the order of the body: what a root needs comes before it.
  absl::Status FindNeeds() {
    for (size_t id = 0; id < body_.ops().size(); ++id) {
      const ReduceUse use = program_.uses[id];
      const auto value = static_cast<ValueId>(id);
      const bool alone = use == ReduceUse::kNone || use == ReduceUse::kSerial;
      if (alone && !IsHanded(value)) continue;
      const StitchRoot root{KindOf(value), value, -1};
      if (FindMean(root)) continue;
      // A reduction that no unit can hold may still be done serially where it is read.
      absl::StatusOr<Needs> needs = NeedsOf(root, true);
      if (!needs.ok()) return needs.status();
      needs_[root.value] = *needs;
      if (use == ReduceUse::kColumn) column_phases_[root.value] = PhaseOf(*needs);
    }
    for (int i = 0; i < body_.num_outputs(); ++i) {
      const StitchRoot root{StitchRoot::kStore, body_.outputs()[static_cast<size_t>(i)].value, i};
      const bool cut = program_.owner >= 0 && CutUnits(program_, DimsOfRoot(body_, root)).ok();
      absl::StatusOr<Needs> needs = NeedsOf(root, cut);
      SINTER_RETURN_IF_ERROR(needs.status());
      store_cut_.push_back(cut);
      store_phases_.push_back(PhaseOf(*needs));
      store_needs_.push_back(*std::move(needs));
    }
    return absl::OkStatus();
  }

  // Whatever is handed over is taken by somebody.
  absl::Status CheckHanded() const {
    std::set<ValueId> taken;
    for (const auto& [id, needs] : needs_) taken.insert(needs.subs.begin(), needs.subs.end());
    for (const Needs& needs : store_needs_) taken.insert(needs.subs.begin(), needs.subs.end());
    for (const ValueId id : program_.handed) {
      if (taken.count(id) > 0) continue;
      return RefuseOp(id, body_.op(id), "is handed over and read at no other element of its unit");
    }
    return absl::OkStatus();
  }

  // A second moment is made where its mean is, which each mean is for one of them.
  bool FindMean(const StitchRoot& moment) {
    const ValueId mean = MeanOfMoment(body_, program_, moment.value);
    if (mean < 0 || !means_.insert(mean).second) return false;
    needs_[moment.value] = needs_.at(mean);
    column_phases_[moment.value] = column_phases_.at(mean);
    moments_[moment.value] = mean;
    return true;
  }

  absl::StatusOr<Needs> NeedsOf(const StitchRoot& root, bool cut) {
    const std::vector<Dim>& dims = DimsOfRoot(body_, root);
    Position at;
    if (cut) {
      SINTER_ASSIGN_OR_RETURN(const UnitCut parts, CutUnits(program_, dims));
      at = PositionIn(parts, unit_, element_, space_);
    } else {
      at = PositionIn(dims, element_, space_);
    }
    const RootLoop loop{cut ? unit_ : -1, element_, LoopOf(root, cut).elements};
    return sinter::NeedsOf(body_, program_, root, at, loop, column_phases_, space_);
  }

  // The rows that a root reads may read columns in turn.
  int PhaseOf(const Needs& needs) const {
    int phase = needs.phase;
    for (ValueId row : needs.subs) phase = std::max(phase, PhaseOf(needs_.at(row)));
    return phase;
  }

  int LevelOf(const Needs& needs) const {
    int level = 0;
    for (ValueId row : needs.subs) level = std::max(level, LevelOf(needs_.at(row)) + 1);
    return level;
  }

  void AddPhase(int phase) {
    std::set<ValueId> rows;
    for (const auto& [column, at] : column_phases_) {
      if (at != phase) continue;
      if (means_.count(column) > 0) continue;
      const auto moment = moments_.find(column);
      const ValueId mean = moment == moments_.end() ? -1 : moment->second;
      AddRoot(phase, {StitchRoot::kColumn, column, -1, mean}, needs_.at(column), true, rows);
    }
    for (size_t i = 0; i < store_phases_.size(); ++i) {
      if (store_phases_[i] != phase) continue;
      const StitchRoot root{StitchRoot::kStore, body_.outputs()[i].value, static_cast<int>(i)};
      AddRoot(phase, root, store_needs_[i], store_cut_[i], rows);
    }
    std::vector<StitchLoop>& loops = program_.phases[static_cast<size_t>(phase)].loops;
    std::stable_sort(loops.begin(), loops.end(),
                     [](const StitchLoop& a, const StitchLoop& b) { return a.level < b.level; });
    bool segments = false;
    for (const StitchLoop& loop : loops) {
      for (const StitchRoot& root : loop.roots) segments |= root.kind == StitchRoot::kSegment;
    }
    for (StitchLoop& loop : loops) loop.segments = segments;
  }

  // With the sub-roots of its unit that it reads, each once a phase.
  void AddRoot(int phase, StitchRoot root, const Needs& needs, bool cut, std::set<ValueId>& rows) {
    for (ValueId row : needs.subs) {
      if (!rows.insert(row).second) continue;
      AddRoot(phase, {KindOf(row), row, -1}, needs_.at(row), true, rows);
    }
    std::set<ValueId> reads = needs.subs;
    reads.insert(needs.own.begin(), needs.own.end());
    root.reads.assign(reads.begin(), reads.end());
    StitchLoop loop = LoopOf(root, cut);
    loop.level = LevelOf(needs);
    StitchPhase& to = program_.phases[static_cast<size_t>(phase)];
    std::vector<StitchLoop>& loops = cut ? to.loops : to.flat;
    for (StitchLoop& other : loops) {
      if (other.level != loop.level || other.elements != loop.elements ||
          other.symbolic != loop.symbolic) {
        continue;
      }
      other.roots.push_back(root);
      return;
    }
    loop.roots = {root};
    loops.push_back(std::move(loop));
  }

  StitchLoop LoopOf(const StitchRoot& root, bool cut) const {
    StitchLoop loop;
    for (const Dim& dim : DimsOfRoot(body_, root)) {
      loop.symbolic |= dim.symbolic;
      if (!dim.symbolic) loop.elements *= dim.value;
    }
    if (cut) {
      loop.elements /= program_.units;
      loop.symbolic = false;
    }
    return loop;
  }

  const Chain& body_;
  StitchProgram& program_;
  IndexSpace space_;
  IndexVar unit_ = -1, element_ = -1;
  std::map<ValueId, Needs> needs_;  // of reductions
  std::map<ValueId, int> column_phases_;
  std::map<ValueId, ValueId> moments_;  // with their means
  std::set<ValueId> means_;             // that are made along with a moment
  std::vector<Needs> store_needs_;
  std::vector<int> store_phases_;
  std::vector<bool> store_cut_;
};

}  // namespace

absl::StatusOr<UnitCut> CutUnits(const StitchProgram& program, const std::vector<Dim>& dims) {
  UnitCut cut;
  const auto refuse = [&] {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(dims), " is not ", program.units, program.units_symbolic ? "*M" : "", " units"));
  };
  int64_t left = program.units;
  size_t axis = 0;
  if (program.units_symbolic) {
    if (dims.empty() || !dims[0].symbolic) return refuse();
    cut.unit_dims.push_back(0);
    axis = 1;
  } else if (!dims.empty() && dims[0].symbolic) {
    return refuse();
  }
  for (; left > 1; ++axis) {
    if (axis == dims.size()) return refuse();
    const int64_t extent = dims[axis].value;
    if (left % extent == 0) {
      cut.unit_dims.push_back(extent);
      left /= extent;
    } else if (extent % left == 0) {
      cut.unit_dims.push_back(left);
      cut.element_dims.push_back(extent / left);
      cut.across = true;
      left = 1;
    } else {
      return refuse();
    }
  }
  for (; axis < dims.size(); ++axis) cut.element_dims.push_back(dims[axis].value);
  return cut;
}

Position PositionIn(const UnitCut& cut, IndexVar unit, IndexVar element, IndexSpace& space) {
  Position at = space.Box(unit, cut.unit_dims);
  Position inside = space.Box(element, cut.element_dims);
  if (cut.across) {
    at.back() = at.back().Times(cut.element_dims[0]).Plus(inside[0]);
    inside.erase(inside.begin());
  }
  at.insert(at.end(), inside.begin(), inside.end());
  return at;
}

Position PositionIn(const std::vector<Dim>& dims, IndexVar element, IndexSpace& space) {
  std::vector<int64_t> extents;
  for (const Dim& dim : dims) extents.push_back(dim.symbolic ? 0 : dim.value);
  return space.Box(element, extents);
}

ValueId WalkedValue(const Chain& body, const StitchRoot& root) {
  const bool itself = root.kind == StitchRoot::kStore || root.kind == StitchRoot::kHand;
  return itself ? root.value : body.op(root.value).operands[0];
}

const std::vector<Dim>& DimsOfRoot(const Chain& body, const StitchRoot& root) {
  return body.op(WalkedValue(body, root)).type.dims;
}

bool IsOfUnit(const Op& reduction, const Position& at, IndexVar unit, IndexSpace& space) {
  const Index linear = space.Canonical(LinearIndex(reduction.type.dims, at));
  return linear == Index::Of(unit) || (linear == Index() && space.var(unit).extent == 1);
}

int64_t ReducedElements(const Chain& body, const Op& op) {
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  if (op.kind == OpKind::kMatmul) {
    const Dim k = dims[dims.size() - (op.transpose_a ? 2 : 1)];
    return k.symbolic ? 0 : k.value;
  }
  const Span span = SpanOf(op, dims, true);
  return span.symbolic ? 0 : span.elements;
}

std::vector<ValueId> OwnerCandidates(const Chain& body) {
  std::vector<ValueId> owners = {-1};
  std::set<std::pair<int64_t, bool>> seen;
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.op(static_cast<ValueId>(id));
    if (op.kind != OpKind::kReduce) continue;
    const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
    const bool tail = ReducesTail(op, dims);
    if (!tail && !ReducesHead(op, dims)) continue;
    const Span units = SpanOf(op, dims, !tail);
    if (seen.insert({units.elements, units.symbolic}).second) {
      owners.push_back(static_cast<ValueId>(id));
    }
  }
  return owners;
}

namespace {

absl::Status SetHanded(const Chain& body, const std::vector<ValueId>& handed,
                       StitchProgram& program) {
  for (const ValueId id : handed) {
    if (id < 0 || static_cast<size_t>(id) >= body.ops().size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("value ", id, " is handed over and not there"));
    }
    if (!MayBeHanded(body, program, id)) {
      return RefuseOp(id, body.op(id), "is no value that the threads of a unit hand over");
    }
  }
  program.handed = handed;
  std::sort(program.handed.begin(), program.handed.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StitchProgram> MakeStitchProgram(const Chain& body, ValueId owner,
                                                const std::vector<ValueId>& handed) {
  SINTER_RETURN_IF_ERROR(CheckRows(body));
  StitchProgram program;
  program.owner = owner;
  if (owner >= 0) {
    if (static_cast<size_t>(owner) >= body.ops().size() || body.op(owner).kind != OpKind::kReduce) {
      return absl::InvalidArgumentError(absl::StrCat("owner ", owner, " is not a reduction"));
    }
    const Op& op = body.op(owner);
    const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
    const bool tail = ReducesTail(op, dims);
    if (!tail && !ReducesHead(op, dims)) {
      return RefuseOp(owner, op, "reduces axes that are neither the last nor the first ones");
    }
    const Span units = SpanOf(op, dims, !tail);
    program.units = units.elements;
    program.units_symbolic = units.symbolic;
  }
  for (const Op& op : body.ops()) program.uses.push_back(UseOf(body, op, program));
  SINTER_RETURN_IF_ERROR(SetHanded(body, handed, program));
  SINTER_RETURN_IF_ERROR(Builder(body, program).Run());
  SINTER_RETURN_IF_ERROR(SettleInPlace(body, program));
  MarkSerial(body, program);
  for (StitchPhase& phase : program.phases) AssignSlots(body, program, phase);
  return program;
}

}  // namespace sinter
