
#include <algorithm>
#include <set>

#include "src/base/numbers.h"
#include "src/stitch/body_work.h"
#include "src/stitch/phases.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/sectors.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// A hand-over is tried if it saves at least this share of a unit's instructions, of a value that is
// computed at least this many times for each of its elements.
constexpr double kWorth = 0.1, kRepeated = 1.5;
constexpr size_t kMostAlone = 2;  // values that are tried by themselves

// The work of a unit's threads together, counted element by element.
struct UnitWork {
  double issue = 0, special = 0;
  double serial_issue = 0;   // of a thread's vector, in its serial reductions
  double shared_cycles = 0;  // of warps
};

// Depends only on the schedule's vector and on whether it keeps values.
class HandCounter {
 public:
  HandCounter(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
              LoopEvaluations& times, Pace* pace)
      : body_(body),
        program_(program),
        schedule_(schedule),
        times_(times),
        pace_(pace),
        precisions_(PrecisionsOf(body)),
        layout_(program.handed.empty() ? HandLayout() : LayOutHands(body, program, schedule)) {}

  UnitWork Count() {
    for (size_t phase = 0; phase < program_.phases.size(); ++phase) {
      computed_.clear();
      for (const StitchLoop& loop : program_.phases[phase].loops) CountPass(phase, loop);
    }
    return work_;
  }

 private:
  void CountPass(size_t phase, const StitchLoop& loop) {
    const int width = LoopVector(body_, schedule_, loop);
    const double vectors = static_cast<double>(loop.elements) / width;
    Evaluations& walk = times_.at(&loop);
    std::set<ValueId> computed;
    for (const auto& one : walk.statements) {
      Step(pace_);
      const auto& [key, statement] = one;
      const double trips = walk.TripsOf(one, width);
      if (trips == 0) continue;
      double issue = 0;
      if (statement.taken) {
        issue = CountAccess(phase, key.first, statement.in_unit, trips, width, walk);
      } else {
        OpCost cost = CostOf(key.first, statement);
        const Op& op = body_.op(key.first);
        if (op.kind == OpKind::kInput) {
          const Index address = AddressOf(key.second, op.strides, walk.space);
          const int accesses = AccessesOfVector(walk.space, address, walk.element, width);
          cost.issue += double{kMemoryInstructions} * accesses / width;
        }
        issue = cost.issue * trips;
        work_.special += cost.special * trips;
        if (statement.in_loop) work_.serial_issue += cost.special * trips / vectors;
        computed.insert(key.first);
      }
      work_.issue += issue;
      if (statement.in_loop) work_.serial_issue += issue / vectors;
    }
    for (const StitchRoot& root : loop.roots) {
      if (root.kind == StitchRoot::kHand) CountLeaving(phase, root.value, width, walk);
    }
    computed_.insert(computed.begin(), computed.end());
  }

  OpCost CostOf(ValueId id, const Statement& statement) const {
    const Op& op = body_.op(id);
    const bool input = op.kind == OpKind::kInput;
    if (!input && schedule_.keep_values && !statement.in_loop && computed_.count(id) > 0) return {};
    return CostOfOp(body_, precisions_, id);
  }

  void CountLeaving(size_t phase, ValueId id, int width, Evaluations& walk) {
    const Op& op = body_.op(id);
    const std::vector<Dim>& dims = body_.op(TakesRow(op) ? op.operands[0] : id).type.dims;
    const absl::StatusOr<UnitCut> cut = CutUnits(program_, dims);
    const Position at = PositionIn(*cut, walk.unit, walk.element, walk.space);
    const auto place = PlaceInUnit(program_, dims, at, walk.unit, walk.space);
    if (!place.has_value()) return;
    const auto elements = static_cast<double>(ElementsInUnit(program_, dims));
    work_.issue += CountAccess(phase, id, *place, elements, width, walk);
  }

  // Instructions of `trips` accesses.
  double CountAccess(size_t phase, ValueId id, const Position& at, double trips, int width,
                     Evaluations& walk) {
    const std::vector<HandPlace>& places = layout_.phases[phase];
    const auto place = std::find_if(places.begin(), places.end(),
                                    [&](const HandPlace& one) { return one.value == id; });
    Index address;
    for (size_t i = 0; i < at.size(); ++i) address = address.Plus(at[i].Times(place->strides[i]));
    const int64_t bytes = SizeOf(place->dtype);
    const BankAccess access = BankCycles(walk.space, address, walk.element, width, bytes);
    work_.shared_cycles += trips * static_cast<double>(access.cycles) / (kWarpLanes * width);
    return kHandInstructions * trips * static_cast<double>(access.accesses) / width;
  }

  const Chain& body_;
  const StitchProgram& program_;
  const StitchSchedule& schedule_;
  LoopEvaluations& times_;
  Pace* const pace_;
  const std::vector<Precision>& precisions_;
  const HandLayout layout_;
  std::set<ValueId> computed_;  // by earlier passes of the phase
  UnitWork work_;
};

// How often a unit computes each value, and the cost of one element.
class Repeats {
 public:
  Repeats(const Chain& body, const StitchProgram& program, const StitchConstants& costs, Pace* pace)
      : body_(body),
        program_(program),
        special_issue_(costs.special_issue),
        precisions_(PrecisionsOf(body)),
        trips_(body.ops().size()) {
    StitchSchedule widest;
    widest.vector = WidestVector(body);
    ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase* phase) {
      if (phase == nullptr) return;
      const int width = LoopVector(body, widest, loop);
      const Evaluations walk = EvaluationsOf(body, program, loop, phase, pace);
      for (const auto& one : walk.statements) {
        if (one.second.taken) continue;
        const ValueId id = one.first.first;
        const double trips = walk.TripsOf(one, width);
        trips_[static_cast<size_t>(id)] += trips;
        total_ += trips * OwnCost(id);
      }
    });
  }

  // Instructions that handing `id` over saves; 0 where too few.
  double Gain(ValueId id) {
    if (IsView(body_.op(id)) || !MayBeHanded(body_, program_, id)) return 0;
    const auto elements = static_cast<double>(ElementsInUnit(program_, body_.op(id).type.dims));
    const double trips = Trips(id) / OwnTurns(id);
    if (trips < kRepeated * elements) return 0;
    std::set<ValueId> seen;
    const double saved = (trips - elements) * ConeCost(id, trips, 1, seen);
    const double gain = saved - kHandInstructions * (trips + elements);
    return gain > kWorth * total_ ? gain : 0;
  }

 private:
  double OwnTurns(ValueId id) const {
    const Op& op = body_.op(id);
    const bool reduced = op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul;
    return reduced ? static_cast<double>(std::max<int64_t>(1, ReducedElements(body_, op))) : 1;
  }

  double Trips(ValueId id) const { return trips_[static_cast<size_t>(id)]; }

  double OwnCost(ValueId id) const {
    const OpCost own = CostOfOp(body_, precisions_, id);
    return own.issue + special_issue_ * own.special +
           (body_.op(id).kind == OpKind::kInput ? kPackInstructions : 0);
  }

  // The cost of all that is computed for one element of `id`. `times`: iterations of the reductions
  // around it, an upper bound of the repetitions.
  double ConeCost(ValueId id, double trips, double times, std::set<ValueId>& seen) const {
    if (!seen.insert(id).second) return 0;
    if (IsJoined(program_, id)) return 0;
    const bool handed = std::binary_search(program_.handed.begin(), program_.handed.end(), id);
    if (handed && seen.size() > 1) return kHandInstructions;
    times *= OwnTurns(id);
    double cost = OwnCost(id) * std::min(times, Trips(id) / trips);
    for (const ValueId operand : body_.op(id).operands) {
      cost += ConeCost(operand, trips, times, seen);
    }
    return cost;
  }

  const Chain& body_;
  const StitchProgram& program_;
  const double special_issue_;
  const std::vector<Precision>& precisions_;
  std::vector<double> trips_;  // by value
  double total_ = 0;           // in instructions
};

// Programs that hand over one value more than `program`, the highest gain first.
std::vector<StitchProgram> WithOneMore(const Chain& body, const StitchProgram& program, size_t most,
                                       const StitchConstants& costs, StitchBudget* budget) {
  Repeats repeats(body, program, costs, PaceOf(budget));
  std::vector<std::pair<double, ValueId>> dearest;
  for (size_t i = 0; i < body.ops().size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    Step(PaceOf(budget), static_cast<int64_t>(body.ops().size()));
    if (std::binary_search(program.handed.begin(), program.handed.end(), id)) continue;
    const double gain = repeats.Gain(id);
    if (gain > 0) dearest.push_back({-gain, id});
  }
  std::sort(dearest.begin(), dearest.end());
  std::vector<StitchProgram> with;
  for (const auto& [gain, id] : dearest) {
    if (with.size() == most) break;
    std::vector<ValueId> handed = program.handed;
    handed.push_back(id);
    std::sort(handed.begin(), handed.end());
    absl::StatusOr<StitchProgram> made = MakeStitchProgram(body, program.owner, handed, budget);
    if (made.ok()) with.push_back(*std::move(made));
  }
  return with;
}

}  // namespace

void LoadTable::AddHands(const StitchSchedule& schedule, StitchLoad& load) {
  const UnitWork before = HandCounter(body_, base_, schedule, times_, pace_).Count();
  const UnitWork after = HandCounter(body_, program_, schedule, handed_times_, pace_).Count();
  const auto units = static_cast<double>(WorkItems(program_, m_));
  // The load is never less than the count element by element.
  const auto change = [](double now, double was, double by, double& total) {
    total = std::max(now * by, total + (now - was) * by);
  };
  change(after.issue, before.issue, units, load.instructions);
  change(after.special, before.special, units, load.special);
  change(after.serial_issue, before.serial_issue, 1, load.serial_issue);
  load.shared_cycles = after.shared_cycles * units;
}

int MeetingsOf(const Chain& body, const StitchProgram& program, int unit_threads) {
  const bool rows_meet = unit_threads > kWarpLanes;
  int meetings = 0;
  for (const StitchPhase& phase : program.phases) {
    if (phase.hands.empty()) continue;
    for (const bool meets : MeetsBefore(phase, rows_meet)) meetings += meets;
    for (const StitchHand& hand : phase.hands) {
      const Op& op = body.op(hand.value);
      if (TakesRow(op)) meetings += MeetingsOfStep(body, op, unit_threads);
    }
  }
  return meetings;
}

std::vector<std::vector<ValueId>> HandChoices(const Chain& body, const StitchProgram& base,
                                              const DeviceModel& model, StitchBudget* budget) {
  const StitchConstants& costs = model.stitch;
  std::vector<std::vector<ValueId>> choices;
  const std::vector<StitchProgram> alone = WithOneMore(body, base, kMostAlone, costs, budget);
  for (const StitchProgram& one : alone) choices.push_back(one.handed);
  if (alone.empty()) return choices;
  for (const StitchProgram& two : WithOneMore(body, alone[0], 1, costs, budget)) {
    choices.push_back(two.handed);
  }
  return choices;
}

}  // namespace sinter
