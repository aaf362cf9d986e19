#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/stitch/body_work.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {
namespace {

constexpr int64_t kFewElements = 64;  // of an input: values computed from so few are cheap

absl::Status Refuse(absl::string_view why) { return FailedPrecondition("packing: ", why); }

bool HasFewElements(const Op& input) {
  int64_t count = 1;
  for (size_t i = 0; i < input.type.dims.size(); ++i) {
    if (input.type.dims[i].symbolic) return false;
    if (input.strides[i].value != 0) count *= input.type.dims[i].value;
  }
  return count <= kFewElements;
}

std::vector<bool> InputsInPlace(const Chain& body) {
  std::vector<bool> in_place(static_cast<size_t>(body.num_inputs()));
  for (const ChainOutput& output : body.outputs()) {
    if (output.alias_input >= 0) in_place[static_cast<size_t>(output.alias_input)] = true;
  }
  return in_place;
}

// By op: computed without reductions from a few elements of inputs that are not overwritten.
std::vector<bool> LightOps(const Chain& body) {
  const std::vector<bool> in_place = InputsInPlace(body);
  std::vector<bool> light;
  for (const Op& op : body.ops()) {
    const bool joins = op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul || TakesRow(op);
    light.push_back(
        op.kind == OpKind::kInput
            ? HasFewElements(op) && !in_place[static_cast<size_t>(op.input)]
            : !joins && std::all_of(op.operands.begin(), op.operands.end(),
                                    [&](ValueId id) { return light[static_cast<size_t>(id)]; }));
  }
  return light;
}

// Joins outputs that share computed values, or an input that one of them is written over.
class Grouper {
 public:
  explicit Grouper(const Chain& body)
      : body_(body), light_(LightOps(body)), in_place_(InputsInPlace(body)) {
    first_.assign(body.ops().size(), -1);
    for (int i = 0; i < body.num_outputs(); ++i) parent_.push_back(i);
  }

  std::vector<std::vector<int>> Run() {
    for (int i = 0; i < body_.num_outputs(); ++i) {
      Visit(body_.outputs()[static_cast<size_t>(i)].value, i);
    }
    // Also an output that is written over an input without reading it.
    for (ValueId id = 0; id < static_cast<ValueId>(body_.ops().size()); ++id) {
      if (body_.op(id).kind != OpKind::kInput) continue;
      for (int i = 0; i < body_.num_outputs(); ++i) {
        if (body_.outputs()[static_cast<size_t>(i)].alias_input == body_.op(id).input) Visit(id, i);
      }
    }
    std::map<int, std::vector<int>> groups;
    for (int i = 0; i < body_.num_outputs(); ++i) groups[Find(i)].push_back(i);
    std::vector<std::vector<int>> list;
    for (auto& [first, group] : groups) list.push_back(std::move(group));
    return list;
  }

 private:
  int Find(int i) {
    while (parent_[static_cast<size_t>(i)] != i) i = parent_[static_cast<size_t>(i)];
    return i;
  }

  void Visit(ValueId root, int output) {
    std::vector<ValueId> open = {root};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Op& op = body_.op(id);
      const bool place = op.kind == OpKind::kInput && in_place_[static_cast<size_t>(op.input)];
      if (!place && (op.kind == OpKind::kInput || light_[static_cast<size_t>(id)])) continue;
      int& first = first_[static_cast<size_t>(id)];
      if (first >= 0) {  // its operands were visited for that output
        const int a = Find(first), b = Find(output);
        parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
        continue;
      }
      first = output;
      open.insert(open.end(), op.operands.begin(), op.operands.end());
    }
  }

  const Chain& body_;
  const std::vector<bool> light_, in_place_;
  std::vector<int> first_;   // by op: the first output that needs it
  std::vector<int> parent_;  // by output
};

// Ops of the whole body that `outputs` need, ascending.
std::set<ValueId> NeededOps(const Chain& body, const std::vector<int>& outputs) {
  std::set<ValueId> needed;
  std::vector<ValueId> open;
  for (int i : outputs) open.push_back(body.outputs()[static_cast<size_t>(i)].value);
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!needed.insert(id).second) continue;
    const Op& op = body.op(id);
    open.insert(open.end(), op.operands.begin(), op.operands.end());
  }
  return needed;
}

// The op of the whole for each op of the part: both are walked from their outputs.
std::vector<ValueId> OpsOfWhole(const Chain& whole, const Chain& part,
                                const std::vector<int>& outputs) {
  std::vector<ValueId> ops(part.ops().size(), -1);
  std::vector<std::pair<ValueId, ValueId>> open;
  for (size_t i = 0; i < outputs.size(); ++i) {
    open.push_back(
        {part.outputs()[i].value, whole.outputs()[static_cast<size_t>(outputs[i])].value});
  }
  while (!open.empty()) {
    const auto [id, from] = open.back();
    open.pop_back();
    ValueId& known = ops[static_cast<size_t>(id)];
    if (known >= 0) continue;
    known = from;
    const std::vector<ValueId>& operands = part.op(id).operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      open.push_back({operands[i], whole.op(from).operands[i]});
    }
  }
  return ops;
}

absl::Status AddOutputs(const Chain& body, const std::vector<int>& outputs,
                        const std::map<ValueId, ValueId>& ids, ChainBuilder& builder) {
  for (int i : outputs) {
    const ChainOutput& output = body.outputs()[static_cast<size_t>(i)];
    OutputOptions options;
    options.strides = output.strides;
    if (output.alias_input >= 0) {
      const auto input = ids.find(body.input(output.alias_input));
      if (input != ids.end()) options.alias = input->second;
    }
    SINTER_RETURN_IF_ERROR(builder.Output(ids.at(output.value), options));
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Chain& body, const std::vector<StitchPart>& parts) {
  std::vector<int> times(static_cast<size_t>(body.num_outputs()));
  for (const StitchPart& part : parts) {
    for (int output : part.outputs) {
      if (output < 0 || output >= body.num_outputs()) {
        return Refuse(absl::StrCat("output ", output, " of ", body.num_outputs()));
      }
      ++times[static_cast<size_t>(output)];
    }
  }
  for (size_t i = 0; i < times.size(); ++i) {
    if (times[i] != 1) return Refuse(absl::StrCat(times[i], " parts give output ", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PartBody> ExtractPart(const Chain& body, const std::vector<int>& outputs) {
  ChainBuilder builder;
  std::map<ValueId, ValueId> ids;  // in the builder
  for (ValueId id : NeededOps(body, outputs)) {
    Op op = body.op(id);
    for (ValueId& operand : op.operands) operand = ids.at(operand);
    SINTER_ASSIGN_OR_RETURN(ids[id], Replay(builder, op, false));
  }
  SINTER_RETURN_IF_ERROR(AddOutputs(body, outputs, ids, builder));
  PartBody part;
  SINTER_ASSIGN_OR_RETURN(part.body, builder.Finish());
  part.ops = OpsOfWhole(body, part.body, outputs);
  for (int i = 0; i < part.body.num_inputs(); ++i) {
    const ValueId from = part.ops[static_cast<size_t>(part.body.input(i))];
    part.inputs.push_back(body.op(from).input);
  }
  return part;
}

std::vector<std::vector<int>> IndependentOutputs(const Chain& body) { return Grouper(body).Run(); }

StitchSchedule PackedSchedule(const std::vector<StitchPart>& parts) {
  StitchSchedule launch;
  launch.block_threads = launch.unit_threads = parts.front().schedule.block_threads;
  launch.blocks_per_sm = parts.front().schedule.blocks_per_sm;
  launch.grid = 0;
  for (const StitchPart& part : parts) {
    launch.blocks_per_sm = std::min(launch.blocks_per_sm, part.schedule.blocks_per_sm);
    launch.grid += part.schedule.grid;
  }
  return launch;
}

absl::Status CheckPartFields(const StitchSchedule& schedule) {
  if (schedule.cluster > 1) return Refuse("a part meets a cluster");
  if (!schedule.handed.empty()) return Refuse("a part hands values over");
  if (schedule.staged) return Refuse("a part stages inputs");
  return absl::OkStatus();
}

absl::Status CheckPart(const Chain& body, const StitchSchedule& schedule, StitchBudget* budget,
                       const PartCheck& also) {
  SINTER_RETURN_IF_ERROR(CheckPartFields(schedule));
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, {}, budget));
  if (program.phases.size() > 1) return Refuse("a part meets the grid");
  if (!program.handed.empty()) return Refuse("a part hands values over");
  return also == nullptr ? absl::OkStatus() : also(body, program, schedule);
}

absl::Status CheckParts(const Chain& body, const StitchSchedule& schedule,
                        const std::vector<StitchPart>& parts, StitchBudget* budget,
                        const PartCheck& also) {
  if (parts.size() < 2 || parts.size() > kMostParts) {
    return Refuse(absl::StrCat(parts.size(), " parts, must be 2..", kMostParts));
  }
  SINTER_RETURN_IF_ERROR(CheckOutputs(body, parts));
  if (!(PackedSchedule(parts) == schedule)) return Refuse("the launch is not that of the parts");
  for (const StitchPart& part : parts) {
    if (part.schedule.block_threads != schedule.block_threads) {
      return Refuse("parts of different threads a block");
    }
    SINTER_RETURN_IF_ERROR(CheckPartFields(part.schedule));
    const size_t ops = NeededOps(body, part.outputs).size();
    if (ops <= static_cast<size_t>(kMostBodyOps)) continue;
    return Refuse(absl::StrCat("a part of ", ops, " ops, at most ", kMostBodyOps, " are computed"));
  }
  const std::vector<bool> in_place = InputsInPlace(body);
  std::map<int, int> readers;  // by input whose buffer an output takes
  for (const StitchPart& part : parts) {
    SINTER_ASSIGN_OR_RETURN(const PartBody own, ExtractPart(body, part.outputs));
    SINTER_RETURN_IF_ERROR(CheckPart(own.body, part.schedule, budget, also));
    std::set<int> touched(own.inputs.begin(), own.inputs.end());
    for (int output : part.outputs) {
      touched.insert(body.outputs()[static_cast<size_t>(output)].alias_input);
    }
    for (int input : touched) {
      if (input < 0 || !in_place[static_cast<size_t>(input)]) continue;
      if (++readers[input] > 1) return Refuse(absl::StrCat("two parts need input ", input));
    }
  }
  return absl::OkStatus();
}

std::string PartsText(const std::vector<StitchPart>& parts) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const StitchPart& part : parts) {
    const std::string text = part.schedule.WorkText();
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto& kind) { return kind.first == text; });
    if (known == kinds.end()) {
      kinds.push_back({text, 1});
    } else {
      ++known->second;
    }
  }
  const std::string list = absl::StrJoin(kinds, ", ", [](std::string* out, const auto& kind) {
    absl::StrAppend(out, kind.second > 1 ? absl::StrCat(kind.second, " x ") : "", "(", kind.first,
                    ")");
  });
  return absl::StrCat("packing ", parts.size(), " parts: ", list);
}

void WriteParts(const std::vector<StitchPart>& parts, ByteWriter& w) {
  w.U32(static_cast<uint32_t>(parts.size()));
  for (const StitchPart& part : parts) w(Word(part.outputs), part.schedule.Canonical());
}

absl::StatusOr<std::vector<StitchPart>> ReadParts(ByteReader& r) {
  const uint32_t count = r.U32();
  if (!r.ok() || count > kMostParts) return absl::DataLossError("stitch spec: parts");
  std::vector<StitchPart> parts(count);
  for (StitchPart& part : parts) {
    r(Word(part.outputs));
    if (!r.ok()) return absl::DataLossError("stitch spec: a part's outputs");
    SINTER_ASSIGN_OR_RETURN(part.schedule, StitchSchedule::FromCanonical(r.Bytes()));
  }
  return parts;
}

}  // namespace sinter
