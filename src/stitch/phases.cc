#include "src/stitch/phases.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/stitch/index.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kMostPhases = 4;

class Builder {
 public:
  Builder(const Chain& body, StitchProgram& program, StitchBudget* budget)
      : body_(body), program_(program), work_(body, budget) {
    unit_ = space_.AddLoop("u", program.units_symbolic ? 0 : program.units, 1);
    element_ = space_.AddLoop("i", 0, 2);
  }

  absl::Status Run() {
    SINTER_RETURN_IF_ERROR(FindNeeds());
    SINTER_RETURN_IF_ERROR(CheckHanded());
    int phases = 1;
    for (const auto& [id, phase] : column_phases_) phases = std::max(phases, phase + 1);
    for (const Store& store : stores_) phases = std::max(phases, store.placed.phase + 1);
    if (phases > kMostPhases) {
      return FailedPrecondition("needs ", phases, " phases, at most ", kMostPhases, " are made");
    }
    program_.phases.resize(static_cast<size_t>(phases));
    for (int phase = 0; phase < phases; ++phase) AddPhase(phase);
    program_.visits = work_.visits();
    return SettleInPlace(body_, program_, [this](const StitchRoot& root) -> const Needs& {
      const auto store = std::find_if(stores_.begin(), stores_.end(), [&](const Store& one) {
        return one.root.kind == root.kind && one.root.output == root.output;
      });
      return store == stores_.end() ? needs_.at(root.value).needs : store->placed.needs;
    });
  }

 private:
  // A root's needs, and the phase and level that follow from them.
  struct Placed {
    Needs needs;
    int phase = 0, level = 0;
  };

  // The store of an output. `cut`: in a loop over units.
  struct Store {
    StitchRoot root;
    bool cut = false;
    Placed placed;
  };

  bool IsHanded(ValueId id) const {
    return std::binary_search(program_.handed.begin(), program_.handed.end(), id);
  }

  StitchRoot::Kind KindOf(ValueId id) const {
    if (IsHanded(id)) return StitchRoot::kHand;
    const ReduceUse use = program_.uses[static_cast<size_t>(id)];
    if (use == ReduceUse::kColumn) return StitchRoot::kColumn;
    return use == ReduceUse::kRow ? StitchRoot::kRow : StitchRoot::kSegment;
  }

  // Visits sub-roots in the order of the body, so that a root's needs come before it.
  absl::Status FindNeeds() {
    for (size_t id = 0; id < body_.ops().size(); ++id) {
      const ReduceUse use = program_.uses[id];
      const auto value = static_cast<ValueId>(id);
      const bool alone = use == ReduceUse::kNone || use == ReduceUse::kSerial;
      if (alone && !IsHanded(value)) continue;
      const StitchRoot root{KindOf(value), value, -1};
      if (FindMean(root)) continue;
      // A reduction that no unit can own may still be made serially where it is read.
      absl::StatusOr<Needs> needs = NeedsOf(root, true);
      if (!needs.ok()) return needs.status();
      const Placed& placed = SetNeeds(root.value, *std::move(needs));
      if (use == ReduceUse::kColumn) column_phases_[root.value] = placed.phase;
    }
    for (int i = 0; i < body_.num_outputs(); ++i) {
      const ValueId value = body_.outputs()[static_cast<size_t>(i)].value;
      SINTER_RETURN_IF_ERROR(AddStore({StitchRoot::kStore, value, i}));
      if (body_.op(value).kind != OpKind::kScatter) continue;
      SINTER_RETURN_IF_ERROR(AddStore({StitchRoot::kScatter, value, i}));
    }
    const std::set<ValueId> taken = Taken();
    for (Store& store : stores_) {
      if (taken.count(store.placed.needs.made_again) == 0) continue;
      SINTER_RETURN_IF_ERROR(SpreadOverSegments(&store));
    }
    return absl::OkStatus();
  }

  absl::Status AddStore(const StitchRoot& root) {
    const bool cut = program_.owner >= 0 && ApartOf(root) < 0 &&
                     CutUnits(program_, DimsOfRoot(body_, root)).ok();
    absl::StatusOr<Needs> needs = NeedsOf(root, cut);
    SINTER_RETURN_IF_ERROR(needs.status());
    stores_.push_back({root, cut, Place(*std::move(needs))});
    return absl::OkStatus();
  }

  // The root's output, if it is what a scatter leaves of an input whose buffer the output may
  // share: it is stored only where the output got a buffer of its own. -1: another root.
  int ApartOf(const StitchRoot& root) const {
    if (root.kind != StitchRoot::kStore) return -1;
    const ChainOutput& output = body_.outputs()[static_cast<size_t>(root.output)];
    return WritesInPlace(body_, output) ? root.output : -1;
  }

  // The sub-roots that a root reads.
  std::set<ValueId> Taken() const {
    std::set<ValueId> taken;
    const auto take = [&](const Needs& needs) {
      taken.insert(needs.subs.begin(), needs.subs.end());
    };
    for (const auto& [id, placed] : needs_) take(placed.needs);
    for (const Store& store : stores_) take(store.placed.needs);
    return taken;
  }

  // A result of one element a segment is stored by the lanes that have joined the segment for
  // another root, instead of by others that join it again.
  absl::Status SpreadOverSegments(Store* store) {
    if (body_.op(store->root.value).kind == OpKind::kScatter) return absl::OkStatus();
    const Op& segment = body_.op(store->placed.needs.made_again);
    if (ElementsInUnit(program_, segment.type.dims) != LoopOf(store->root, true).elements) {
      return absl::OkStatus();
    }
    StitchRoot spread = store->root;
    spread.spread = ReducedElements(body_, segment);
    SINTER_ASSIGN_OR_RETURN(Needs needs, NeedsOf(spread, true));
    if (needs.made_again < 0) *store = {spread, true, Place(std::move(needs))};
    return absl::OkStatus();
  }

  // Every handed-over value must be read by a thread that takes it.
  absl::Status CheckHanded() const {
    const std::set<ValueId> taken = Taken();
    for (const ValueId id : program_.handed) {
      if (taken.count(id) > 0) continue;
      return RefuseOp(id, body_.op(id), "is handed over and read at no other element of its unit");
    }
    return absl::OkStatus();
  }

  // A second moment is computed with its mean; each mean serves one second moment.
  bool FindMean(const StitchRoot& moment) {
    const ValueId mean = MeanOfMoment(body_, program_, moment.value);
    if (mean < 0 || !means_.insert(mean).second) return false;
    needs_[moment.value] = needs_.at(mean);
    column_phases_[moment.value] = column_phases_.at(mean);
    moments_[moment.value] = mean;
    return true;
  }

  absl::StatusOr<Needs> NeedsOf(const StitchRoot& root, bool cut) {
    SINTER_ASSIGN_OR_RETURN(const Position at, PositionOfRoot(body_, program_, root,
                                                              cut ? unit_ : -1, element_, space_));
    const RootLoop loop{cut ? unit_ : -1, element_, LoopOf(root, cut).elements};
    return sinter::NeedsOf(body_, program_, root, at, loop, column_phases_, space_, work_);
  }

  // The rows that a root reads have been placed; they may read columns.
  Placed Place(Needs needs) const {
    Placed placed;
    placed.phase = needs.phase;
    for (const ValueId row : needs.subs) {
      const Placed& read = needs_.at(row);
      placed.phase = std::max(placed.phase, read.phase);
      placed.level = std::max(placed.level, read.level + 1);
    }
    placed.needs = std::move(needs);
    return placed;
  }

  const Placed& SetNeeds(ValueId value, Needs needs) {
    return needs_[value] = Place(std::move(needs));
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
    for (const Store& store : stores_) {
      if (store.placed.phase == phase) AddRoot(phase, store.root, store.placed, store.cut, rows);
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

  // Adds a root after the sub-roots of its unit that it reads, each once a phase.
  void AddRoot(int phase, StitchRoot root, const Placed& placed, bool cut,
               std::set<ValueId>& rows) {
    const Needs& needs = placed.needs;
    for (ValueId row : needs.subs) {
      if (!rows.insert(row).second) continue;
      AddRoot(phase, {KindOf(row), row, -1}, needs_.at(row), true, rows);
    }
    std::set<ValueId> reads = needs.subs;
    reads.insert(needs.own.begin(), needs.own.end());
    root.reads.assign(reads.begin(), reads.end());
    StitchLoop loop = LoopOf(root, cut);
    loop.level = placed.level;
    StitchPhase& to = program_.phases[static_cast<size_t>(phase)];
    std::vector<StitchLoop>& loops = cut ? to.loops : to.flat;
    for (StitchLoop& other : loops) {
      if (other.level != loop.level || other.elements != loop.elements ||
          other.symbolic != loop.symbolic || other.apart != loop.apart) {
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
    loop.apart = ApartOf(root);
    for (const Dim& dim : DimsOfRoot(body_, root)) {
      loop.symbolic |= dim.symbolic;
      if (!dim.symbolic) loop.elements *= dim.value;
    }
    if (cut) {
      loop.elements = loop.elements / program_.units * root.spread;
      loop.symbolic = false;
    }
    return loop;
  }

  const Chain& body_;
  StitchProgram& program_;
  IndexSpace space_;
  IndexVar unit_ = -1, element_ = -1;
  BodyWork work_;
  std::map<ValueId, Placed> needs_;  // by reduction
  std::map<ValueId, int> column_phases_;
  std::map<ValueId, ValueId> moments_;  // to their means
  std::set<ValueId> means_;             // computed along with a moment
  std::vector<Store> stores_;
};

bool IsColumn(const StitchProgram& program, ValueId id) {
  return program.uses[static_cast<size_t>(id)] == ReduceUse::kColumn;
}

// The operand that `id` squares; -1: `id` is not a square.
ValueId SquareRoot(const Chain& body, ValueId id) {
  const Op& op = body.op(id);
  if (IsUnary(op, UnaryKind::kSquare)) return op.operands[0];
  const bool product = IsBinary(op, BinaryKind::kMul);
  return product && op.operands[0] == op.operands[1] ? op.operands[0] : -1;
}

bool OnlySpreads(const Op& op) {
  return op.kind == OpKind::kBroadcast || op.kind == OpKind::kReshape;
}

// The column mean that `id` broadcasts over the units of its own column; -1: none.
ValueId SpreadMean(const Chain& body, const StitchProgram& program, ValueId id) {
  IndexSpace space;
  const auto cut = CutUnits(program, body.op(id).type.dims);
  if (!cut.ok()) return -1;
  const IndexVar unit = space.AddLoop("u", program.units_symbolic ? 0 : program.units, 1);
  int64_t elements = 1;
  for (const int64_t extent : cut->element_dims) elements *= extent;
  const IndexVar element = space.AddLoop("i", elements, 2);
  Position at = PositionIn(*cut, unit, element, space);
  while (OnlySpreads(body.op(id))) {
    at = PullPosition(body, body.op(id), 0, at, space);
    id = body.op(id).operands[0];
  }
  const Op& mean = body.op(id);
  if (!IsColumn(program, id) || mean.reduce != ReduceKind::kMean) return -1;
  const Index column = space.Canonical(LinearIndex(mean.type.dims, at));
  const bool whole = program.whole && ColumnsOf(body, id) == 1;
  return whole || elements == 1 || column == Index::Of(element) ? id : -1;
}

}  // namespace

absl::Status MakePhases(const Chain& body, StitchProgram& program, StitchBudget* budget) {
  return Builder(body, program, budget).Run();
}

ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id) {
  const Op& op = body.op(id);
  if (!IsColumn(program, id) || op.type.dtype != DType::kF32) return -1;
  if (op.reduce != ReduceKind::kSum && op.reduce != ReduceKind::kMean) return -1;
  const ValueId difference = SquareRoot(body, op.operands[0]);
  if (difference < 0) return -1;
  const Op& sub = body.op(difference);
  if (!IsBinary(sub, BinaryKind::kSub)) return -1;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const ValueId mean = SpreadMean(body, program, sub.operands[1 - side]);
    if (mean < 0 || body.op(mean).type.dtype != DType::kF32) continue;
    if (body.op(mean).operands[0] == sub.operands[side]) return mean;
  }
  return -1;
}

}  // namespace sinter
