#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "src/stitch/body_work.h"
#include "src/stitch/index.h"
#include "src/stitch/phases.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// Words of a column in a part, as in src/device/stitch/columns.cuh.
constexpr int kMomentWords = 4;
// Instructions for one id: a load, its address, a comparison, its join. Those that compute the id
// are counted apart.
constexpr int kInstructionsOfAnId = 4;
// Instructions of a gather: two comparisons in one, the position, the choice; or those of a read's
// condition.
constexpr int kIssueOfGather = 3, kConditionInstructions = 2;

double ElementsAt(const std::vector<Dim>& dims, int64_t m) {
  double count = 1;
  for (const Dim& dim : dims) count *= static_cast<double>(dim.At(m));
  return count;
}

// Distinct elements: an axis of stride 0 counts once.
double DistinctAt(const Op& input, int64_t m) {
  double count = 1;
  for (size_t i = 0; i < input.type.dims.size(); ++i) {
    if (input.strides[i].value != 0) count *= static_cast<double>(input.type.dims[i].At(m));
  }
  return count;
}

// Collects the ops between a root of `phase` and the sub-roots, inputs and stored results that it
// reads.
void Gather(const Chain& body, const StitchProgram& program, const StitchPhase& phase, ValueId id,
            std::set<ValueId>& ops) {
  if (!ops.insert(id).second || BackOf(phase, id) != nullptr) return;
  for (ValueId operand : body.op(id).operands) {
    if (!IsJoined(program, operand)) Gather(body, program, phase, operand, ops);
  }
}

double Elements(const Op& op, int64_t m) { return std::max(1.0, ElementsAt(op.type.dims, m)); }

// By value: which part of its elements a kernel reads at most. It is less than all only below the
// operand of a gather, from which each id takes its elements once. A scatter in place reads nothing
// of the operand that it overwrites.
std::vector<double> PartsRead(const Chain& body, int64_t m) {
  std::vector<double> parts(body.ops().size());
  for (const ChainOutput& output : body.outputs()) parts[static_cast<size_t>(output.value)] = 1;
  std::set<ValueId> written;  // scatters in place
  for (const ChainOutput& output : body.outputs()) {
    if (WritesInPlace(body, output)) written.insert(output.value);
  }
  for (size_t id = parts.size(); id-- > 0;) {
    const Op& op = body.op(static_cast<ValueId>(id));
    for (size_t i = 0; i < op.operands.size(); ++i) {
      double read = parts[id];
      if (op.kind == OpKind::kGather && i == 0) {
        read *= Elements(op, m) / Elements(body.op(op.operands[0]), m);
      }
      if (i == 0 && written.count(static_cast<ValueId>(id)) > 0) continue;
      double& part = parts[static_cast<size_t>(op.operands[i])];
      part = std::min(1.0, part + read);
    }
  }
  return parts;
}

class LoadCounter {
 public:
  LoadCounter(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
              int64_t m, const LoopEvaluations& times, const StitchConstants& costs)
      : body_(body),
        program_(program),
        schedule_(schedule),
        m_(m),
        times_(times),
        alike_share_(costs.alike_share),
        precisions_(PrecisionsOf(body)),
        parts_(PartsRead(body, m)) {}

  StitchLoad Count() {
    for (const StitchPhase& phase : program_.phases) CountPhase(phase);
    load_.column_joins = static_cast<int>(program_.phases.size()) - 1;
    load_.ends_in_columns = OnlyStoresColumns(body_, program_, program_.phases.back());
    for (int i = 0; i < body_.num_inputs(); ++i) {
      load_.input_bytes += BytesRead(body_.input(i));
    }
    for (int i = 0; i < body_.num_outputs(); ++i) {
      load_.output_bytes +=
          ElementsStored(i) * static_cast<double>(SizeOf(body_.output_type(i).dtype));
    }
    return load_;
  }

 private:
  double ElementsStored(int output) const {
    const bool rows = WritesInPlace(body_, body_.outputs()[static_cast<size_t>(output)]);
    const ValueId value = body_.outputs()[static_cast<size_t>(output)].value;
    const ValueId walked = rows ? body_.op(value).operands[2] : value;
    return ElementsAt(body_.op(walked).type.dims, m_);
  }

  // Instructions of an element to ask whether a later row has its row's id, or any has its place:
  // neighbouring lanes of a row share the search.
  double InstructionsOfIds(const StitchRoot& root, int vector) const {
    const Op& op = body_.op(root.value);
    if (op.kind != OpKind::kScatter) return 0;
    double row = 1;
    for (size_t i = 1; i < op.type.dims.size(); ++i) {
      row *= static_cast<double>(op.type.dims[i].At(m_));
    }
    const double lanes = std::clamp<double>(row / vector, 1, kWarpLanes);
    const int share = root.kind == StitchRoot::kScatter ? 2 : 1;  // only the later half
    const double ids = ElementsAt(body_.op(op.operands[1]).type.dims, m_) / share;
    std::set<ValueId> cone;
    Gather(body_, program_, {}, op.operands[1], cone);
    double each = kInstructionsOfAnId;
    for (const ValueId id : cone) each += CostOfOp(body_, precisions_, id).issue;
    return each * ids / lanes / vector;
  }

  // Where a vector's elements have one id they are read under a condition, which clears the words
  // that are not read; by ids that name a place, as others are.
  double IssueOfGather(const Op& op, const Evaluations& times, int vector) const {
    if (times.SharedBy(op.operands[1], vector) < vector) return kIssueOfGather;
    if (NamesAPlace(body_, op)) return 0;
    return kConditionInstructions / double(vector) +
           static_cast<double>(SizeOf(op.type.dtype)) / kWordBytes;
  }

  double BytesRead(ValueId input) {
    const auto [known, fresh] = bytes_read_.try_emplace(input);
    if (fresh) {
      const Op& op = body_.op(input);
      const double all = DistinctAt(op, m_) * static_cast<double>(SizeOf(op.type.dtype));
      const std::optional<double> read = SectorBytesRead(program_, times_, input, m_);
      known->second =
          read.has_value() ? std::min(all, *read) : all * parts_[static_cast<size_t>(input)];
    }
    return known->second;
  }

  bool IsStaged(ValueId input) const {
    return schedule_.staged &&
           std::any_of(program_.staged.begin(), program_.staged.end(),
                       [&](const StagedInput& one) { return one.value == input; });
  }

  void CountPhase(const StitchPhase& phase) {
    read_.clear();
    computed_.clear();
    for (const StitchLoop& loop : phase.loops) {
      load_.levels = std::max(load_.levels, loop.level + 1);
      CountLoop(loop, phase, true);
    }
    for (const StitchLoop& loop : phase.flat) CountLoop(loop, {}, false);
    for (ValueId input : read_) seen_.insert(input);
    load_.alike = std::max(load_.alike, alike_);
    alike_ = 0;
  }

  void CountLoop(const StitchLoop& loop, const StitchPhase& phase, bool units) {
    if (loop.apart >= 0) return;  // the usual case is in place
    std::set<ValueId> ops;
    double moments = 0, of_ids = 0;
    const int vector = LoopVector(body_, schedule_, loop);
    for (const StitchRoot& root : loop.roots) {
      // A stored reduction has been computed by its own root.
      if (root.mean >= 0) {
        Gather(body_, program_, phase, body_.op(root.mean).operands[0], ops);
        moments += 1;
      } else if (root.kind != StitchRoot::kStore || !IsJoined(program_, root.value)) {
        const bool scatter = body_.op(root.value).kind == OpKind::kScatter;
        Gather(body_, program_, phase, scatter ? WalkedValue(body_, root) : root.value, ops);
        of_ids += InstructionsOfIds(root, vector);
      }
      if (root.kind == StitchRoot::kColumn) {
        load_.column_words +=
            (root.mean >= 0 ? kMomentWords : 1) * static_cast<double>(ColumnsOf(body_, root.value));
      }
    }
    double elements =
        static_cast<double>(loop.elements) * (loop.symbolic ? static_cast<double>(m_) : 1);
    if (units) elements *= static_cast<double>(WorkItems(program_, m_));
    const Evaluations& own_times = times_.at(&loop);
    double cost = double{kMemoryInstructions} / vector + of_ids +
                  (kMomentInstructions + double{kMomentTurnInstructions} / vector) * moments;
    double special = 0;
    for (ValueId id : ops) {
      const Op& op = body_.op(id);
      if (BackOf(phase, id) != nullptr) {
        cost += double{kMemoryInstructions} / vector;
        CountBack(id);
        continue;
      }
      OpCost own = CostOfOp(body_, precisions_, id);
      if (op.kind == OpKind::kGather) own.issue = IssueOfGather(op, own_times, vector);
      const bool again = computed_.count(id) > 0 && own.issue + own.special > 0;
      load_.repeats |= again && own.special > 0;
      if (again && schedule_.keep_values && op.kind != OpKind::kInput) own = {};
      const double times =
          std::max(1.0, own_times.times[static_cast<size_t>(id)]) / own_times.SharedBy(id, vector);
      cost += times * own.issue;
      if (op.kind == OpKind::kInput && units && IsStaged(id)) {
        cost += static_cast<double>(kHandInstructions + kMemoryInstructions) / vector;
        if (read_.count(id) == 0) cost += kStagingInstructions;
      } else if (op.kind == OpKind::kInput) {
        cost += kMemoryInstructions * std::max(1.0 / vector, own_times.AccessesOf(id, vector));
        cost += (units ? kDivisionInstructions : kLongDivisionInstructions) *
                own_times.DivisionsOf(id, vector);
      }
      special += times * own.special;
      if (op.kind == OpKind::kInput) CountRead(id, units, loop.level);
      for (ValueId operand : op.operands) CountColumn(operand, units);
    }
    const auto inputs = std::count_if(ops.begin(), ops.end(), [&](ValueId id) {
      return body_.op(id).kind == OpKind::kInput || BackOf(phase, id) != nullptr;
    });
    load_.loop_inputs = std::max<int64_t>(load_.loop_inputs, inputs);
    load_.branch_inputs = std::max(load_.branch_inputs, BranchInputs(ops, inputs));
    if (loop.serial) load_.serial_elements += elements;
    load_.instructions += elements * cost;
    load_.special += elements * special;
    double& steps = loop.serial ? load_.serial_steps : load_.own_steps;
    steps = std::max(steps, own_times.steps);
    if (own_times.steps == 0 && !units) {
      load_.flat.push_back({loop.elements * (loop.symbolic ? m_ : 1), vector, cost, special});
    }
    if (own_times.steps > 0) {
      (loop.serial ? load_.serial_issue : load_.own_issue) +=
          (cost + special) * vector * schedule_.pixels;
    }
    for (ValueId id : ops) {
      computed_.insert(id);
      if (body_.op(id).kind == OpKind::kInput || BackOf(phase, id) != nullptr) read_.insert(id);
    }
  }

  // The number of inputs among `ops` if only one branch of each concat is read: the branch with the
  // most inputs.
  int64_t BranchInputs(const std::set<ValueId>& ops, int64_t inputs) const {
    std::map<ValueId, std::set<ValueId>> read;
    std::set<ValueId> most;
    for (const ValueId id : ops) {
      const Op& op = body_.op(id);
      std::set<ValueId>& own = read[id];
      if (op.kind == OpKind::kInput) own.insert(id);
      for (const ValueId operand : op.operands) {
        const auto found = read.find(operand);
        if (found == read.end()) continue;
        if (op.kind != OpKind::kConcat) {
          own.insert(found->second.begin(), found->second.end());
        } else if (found->second.size() > own.size()) {
          own = found->second;
        }
      }
    }
    const bool concat = std::any_of(
        ops.begin(), ops.end(), [&](ValueId id) { return body_.op(id).kind == OpKind::kConcat; });
    if (!concat) return inputs;
    for (const auto& [id, of] : read) {
      if (of.size() > most.size()) most = of;
    }
    return static_cast<int64_t>(most.size());
  }

  // Counts a column reduction's result, which every unit reads unless it is kept.
  void CountColumn(ValueId id, bool units) {
    if (!units || program_.uses[static_cast<size_t>(id)] != ReduceUse::kColumn) return;
    ++alike_;
    if (schedule_.keep_alike) return;
    load_.again_bytes += alike_share_ * kWordBytes * static_cast<double>(MainElements(program_)) *
                         static_cast<double>(WorkItems(program_, m_));
  }

  // A result of the units that an earlier phase has stored.
  void CountBack(ValueId id) {
    const int64_t size = SizeOf(body_.op(id).type.dtype);
    const double bytes = ElementsAt(body_.op(id).type.dims, m_) * static_cast<double>(size);
    const bool again = read_.count(id) > 0;
    if (!again || !schedule_.keep_inputs) load_.again_bytes += bytes;
    if (again) return;
    load_.crossing_bytes += bytes;
    if (schedule_.keep_inputs && crossing_.insert(id).second) {
      load_.crossing_element_bytes += size;
    }
    load_.unit_bytes += static_cast<int64_t>(
        bytes / static_cast<double>(std::max<int64_t>(1, WorkItems(program_, m_))));
  }

  void CountRead(ValueId id, bool units, int level) {
    const Op& op = body_.op(id);
    const double bytes = BytesRead(id);
    const bool again = read_.count(id) > 0 || seen_.count(id) > 0;
    const bool kept = (schedule_.keep_inputs && seen_.count(id) == 0) || (units && IsStaged(id));
    const bool alike = units && IsAlike(op, MainElements(program_), WorkItems(program_, m_));
    if (units && alike && !again) ++alike_;
    const bool of_any_unit = units && IsAlike(op, MainElements(program_), 2);
    load_.late |= of_any_unit && level > 0 && !again && !schedule_.keep_alike;
    if (alike && !schedule_.keep_alike) {
      load_.again_bytes += alike_share_ *
                           static_cast<double>(MainElements(program_) * SizeOf(op.type.dtype)) *
                           static_cast<double>(WorkItems(program_, m_));
      return;
    }
    if (again && !kept) load_.again_bytes += bytes;
    const bool crosses = units && !kept && read_.count(id) == 0 && seen_.count(id) > 0;
    if (crosses) load_.crossing_bytes += bytes;
    if (crosses && schedule_.keep_inputs) {
      const bool by_ids = parts_[static_cast<size_t>(id)] < 1;  // kept in words
      const int64_t size = by_ids ? kWordBytes : SizeOf(op.type.dtype);
      if (crossing_.insert(id).second) load_.crossing_element_bytes += size;
    }
    if (units && !again && !alike && !IsStaged(id)) {
      const double mine =
          bytes / static_cast<double>(std::max<int64_t>(1, WorkItems(program_, m_)));
      load_.unit_bytes += static_cast<int64_t>(mine);
    }
  }

  const Chain& body_;
  const StitchProgram& program_;
  const StitchSchedule& schedule_;
  const int64_t m_;
  const LoopEvaluations& times_;
  const double alike_share_;
  const std::vector<Precision>& precisions_;
  const std::vector<double> parts_;       // of each value that are read
  std::map<ValueId, double> bytes_read_;  // of inputs
  StitchLoad load_;
  std::set<ValueId> read_, seen_;  // inputs: of this phase; of earlier phases
  std::set<ValueId> crossing_;     // read by units of several phases
  int64_t alike_ = 0;              // in this phase
  std::set<ValueId> computed_;     // by this phase's earlier loops
};

}  // namespace

LoopEvaluations EvaluationsOfLoops(const Chain& body, const StitchProgram& program, Pace* pace,
                                   int pixels) {
  LoopEvaluations times;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase* phase) {
    times[&loop] = EvaluationsOf(body, program, loop, phase, pace, pixels);
  });
  return times;
}

StitchLoad LoadOfProgram(const Chain& body, const StitchProgram& program,
                         const StitchSchedule& schedule, int64_t m, const LoopEvaluations& times,
                         const StitchConstants& costs) {
  return LoadCounter(body, program, schedule, m, times, costs).Count();
}

int SerialDepthOf(const Chain& body, const StitchProgram& program) {
  std::vector<int> depths(body.ops().size());
  int deepest = 0;
  for (size_t id = 0; id < depths.size(); ++id) {
    for (const ValueId operand : body.op(static_cast<ValueId>(id)).operands) {
      const bool handed = std::binary_search(program.handed.begin(), program.handed.end(), operand);
      if (handed || IsJoined(program, operand)) continue;
      depths[id] = std::max(depths[id], depths[static_cast<size_t>(operand)]);
    }
    depths[id] += program.uses[id] == ReduceUse::kSerial ? 1 : 0;
    deepest = std::max(deepest, depths[id]);
  }
  return deepest;
}

}  // namespace sinter
