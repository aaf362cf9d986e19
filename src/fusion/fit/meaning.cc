#include "src/fusion/fit/meaning.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/codec.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/fusion/fit/refusal.h"
#include "src/fusion/run_operands.h"
#include "src/fusion/stitch/body.h"

namespace sinter {
namespace {

// Those of plans whose products compute norms, or leave quantisers to others, stand behind the
// rest.
std::vector<GraphRun> RunsOf(const Chain& chain, int64_t bucket) {
  std::vector<GraphRun> runs = FindProductRuns(chain, bucket).runs;
  const bool groups = std::any_of(runs.begin(), runs.end(), HasGroups);
  const size_t usual = runs.size();
  if (MayTakeNorms(chain, bucket)) {
    for (GraphRun& run : FindProductRuns(chain, bucket, nullptr, {true, true}).runs) {
      if (HasNorm(run.matched.sequence)) runs.push_back(std::move(run));
    }
  }
  if (!groups) return runs;
  for (GraphRun& run : FindProductRuns(chain, bucket, nullptr, {false, false}).runs) {
    const bool known = std::any_of(runs.begin(), runs.begin() + static_cast<int64_t>(usual),
                                   [&run](const GraphRun& other) { return other.end == run.end; });
    if (!known) runs.push_back(std::move(run));
  }
  return runs;
}

// Without those that planning refuses for their strides.
std::vector<GraphRun> ReadableRunsOf(const Chain& chain, int64_t bucket) {
  std::vector<GraphRun> runs = RunsOf(chain, bucket);
  const auto unreadable = [&chain, bucket](const GraphRun& run) {
    return !CheckStrides(run.matched, chain, bucket).ok();
  };
  runs.erase(std::remove_if(runs.begin(), runs.end(), unreadable), runs.end());
  return runs;
}

}  // namespace

ChainMeaning::ChainMeaning(const Chain& chain, int64_t bucket)
    : chain_(chain), runs_(ReadableRunsOf(chain, bucket)), classes_(chain) {
  for (const GraphRun& run : runs_) NameResults(run);
}

const std::vector<std::pair<int, int>>& ChainMeaning::ProductsOf(int weight) const {
  const auto found = by_weight_.find(weight);
  return found == by_weight_.end() ? none_ : found->second;
}

// A run's intermediate results are no values of the chain: they are rounded as kernels round them.
void ChainMeaning::NameResults(const GraphRun& run) {
  const int number = static_cast<int>(results_.size());
  std::vector<ValueClasses::Class> results;
  const MatchedSequence& matched = run.matched;
  for (int i = 0; i < matched.size(); ++i) {
    const ProductInputs& in = matched.InputsOf(i);
    by_weight_[chain_.op(matched.ValueOf(in.weights)).input].push_back({number, i});
    if (i + 1 == matched.size()) {
      results.push_back(classes_.Stored(classes_.Of(run.end), run.dtype()));
      continue;
    }
    ByteWriter w;
    w.Raw("product");
    w.I64(i == 0 ? ClassOf(matched.OperandAt(matched.rows)) : results.back());
    w.Raw(matched.sequence.Part(i, 1).Canonical());
    for (const int operand :
         {in.weights, in.weights_up, in.bias, in.bias_up, in.residual, in.factor, in.scale_rows,
          in.scale_weights, in.scale_up, in.given_scale}) {
      w.I64(operand < 0 ? -1 : ClassOf(matched.OperandAt(operand)));
    }
    const MatrixProduct& p = matched.sequence[i];
    results.push_back(classes_.OfOther(w.str(), {p.result, {matched.m, Dim::Constant(p.n)}}));
  }
  results_.push_back(std::move(results));
}

// Products [segment.begin, segment.end()) of a run.
struct Meaning::Part {
  int number = 0;
  const GraphRun* run = nullptr;
  Segment segment;
  Class result = -1;

  bool last() const { return segment.end() == run->matched.size(); }
};

absl::Status Meaning::Add(const KernelSpec& spec) {
  return spec.stitch != nullptr ? AddStitch(*spec.stitch) : AddProducts(spec);
}

absl::Status Meaning::AddProducts(const KernelSpec& spec) {
  int weight = kWorkspaceBuffer;
  for (const OperandBinding& operand : spec.operands) {
    if (operand.role == Role::kW1) weight = operand.buffer;
  }
  absl::Status why = RefuseFit("no product of the chain multiplies by buffer ", weight);
  for (const auto& [number, product] : of_->ProductsOf(weight)) {
    Part part{number, &of_->runs()[static_cast<size_t>(number)], {product, spec.sequence.size()}};
    if (part.segment.end() > part.run->matched.size()) continue;
    part.result = of_->ResultOf(number, part.segment.end() - 1);
    why = CheckPart(spec, part);
    if (!why.ok()) continue;
    for (const OperandBinding& operand : spec.operands) {
      if (operand.role == Role::kScaleOut) {
        const Class scale = of_->classes().Of(part.run->scale);
        workspace_[operand.offset_bytes] = {scale, of_->classes().TypeOf(scale)};
      }
      if (operand.role != Role::kOut) continue;
      if (operand.buffer != kWorkspaceBuffer) {
        stored_[static_cast<size_t>(operand.buffer - chain_.num_inputs())] = true;
      } else {
        workspace_[operand.offset_bytes] = {part.result, of_->classes().TypeOf(part.result)};
      }
    }
    return absl::OkStatus();
  }
  return why;
}

absl::Status Meaning::CheckPart(const KernelSpec& spec, const Part& part) const {
  const MatchedSequence& matched = part.run->matched;
  if (part.segment.count == 2 && !CanPair(matched.sequence, part.segment.begin)) {
    return RefuseFit("products ", part.segment.begin, " and ", part.segment.begin + 1,
                     " of a run are no pair");
  }
  const ProductSequence want = matched.sequence.Part(part.segment.begin, part.segment.count);
  if (!(spec.sequence == want)) {
    return RefuseFit("it computes \"", spec.sequence.ToString(), "\", the chain asks for \"",
                     want.ToString(), "\"");
  }
  if (spec.constant_weights != matched.weights_constant) {
    return RefuseFit("constant_weights ", spec.constant_weights, ", the chain's are ",
                     matched.weights_constant);
  }
  if (spec.constant_rows != part.run->constant_rows) {
    return RefuseFit("constant_rows ", spec.constant_rows, ", the chain's are ",
                     part.run->constant_rows);
  }
  if (spec.workspace_flags_offset != 0) {
    return RefuseFit("workspace_flags_offset ", spec.workspace_flags_offset, ", must be 0");
  }
  return CheckOperands(spec, part);
}

// Compares with the operands that planning binds for the same products and schedule.
absl::Status Meaning::CheckOperands(const KernelSpec& spec, const Part& part) const {
  const MatchedSequence& matched = part.run->matched;
  const std::vector<RunOperand> wants = OperandsOf(matched, part.segment, spec.schedule);
  if (spec.operands.size() != wants.size()) {
    return RefuseFit(spec.operands.size(), " operands, must be ", wants.size());
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    const OperandBinding& has = spec.operands[i];
    const RunOperand& want = wants[i];
    if (has.role != want.role) {
      return RefuseFit("operand ", i, " is ", NameOf(has.role), ", must be ", NameOf(want.role));
    }
    if (has.row_stride != want.row_stride) {
      return RefuseFit(NameOf(has.role), ": row stride ", has.row_stride, ", must be ",
                       want.row_stride);
    }
    if (want.role == Role::kC || want.role == Role::kPartialOut) {
      if (has.buffer == kWorkspaceBuffer) continue;
      return RefuseFit(NameOf(has.role), " lies in buffer ", has.buffer, ", not in the workspace");
    }
    if (want.role == Role::kScaleOut) {
      if (has.buffer == kWorkspaceBuffer) continue;
      return RefuseFit("scale_out lies in buffer ", has.buffer, ", not in the workspace");
    }
    if (want.role == Role::kOut) {
      SINTER_RETURN_IF_ERROR(CheckStored(has, part));
    } else if (want.kind == RunOperand::Kind::kWorkspace) {
      const Class rows = of_->ResultOf(part.number, part.segment.begin - 1);
      SINTER_RETURN_IF_ERROR(CheckHeld(has, rows, -1, of_->classes().TypeOf(rows)));
    } else {
      const ProductOperand& operand = matched.OperandAt(want.number);
      SINTER_RETURN_IF_ERROR(CheckHeld(has, of_->ClassOf(operand), operand.value, operand.type));
    }
  }
  return absl::OkStatus();
}

// Whether `value` is stored where `operand` says. `of`: the chain's value with that content, or -1.
absl::Status Meaning::CheckHeld(const OperandBinding& operand, Class value, ValueId of,
                                const TensorType& type) const {
  const bool input = of >= 0 && chain_.op(of).kind == OpKind::kInput;
  const int output = of >= 0 ? OutputOf(chain_, of) : -1;
  if (input || output >= 0) {
    const int want = input ? chain_.op(of).input : chain_.num_inputs() + output;
    if (operand.buffer != want || operand.offset_bytes != 0) {
      return RefuseFit(NameOf(operand.role), " is read at ", operand.offset_bytes, " of buffer ",
                       operand.buffer, ", lies at 0 of buffer ", want);
    }
    if (!input && !stored_[static_cast<size_t>(output)]) {
      return RefuseFit(NameOf(operand.role), " is read from output ", output,
                       ", which no earlier kernel stored");
    }
    return absl::OkStatus();
  }
  const auto held = workspace_.find(operand.offset_bytes);
  if (operand.buffer == kWorkspaceBuffer && held != workspace_.end() &&
      held->second.value == value && held->second.type == type) {
    return absl::OkStatus();
  }
  return RefuseFit(NameOf(operand.role), " is read at ", operand.offset_bytes, " of buffer ",
                   operand.buffer, ", where another value lies");
}

absl::Status Meaning::CheckStored(const OperandBinding& operand, const Part& part) const {
  const int output = part.last() ? OutputOf(chain_, part.run->end) : -1;
  const int want = output >= 0 ? chain_.num_inputs() + output : kWorkspaceBuffer;
  if (operand.buffer != want || (output >= 0 && operand.offset_bytes != 0)) {
    return RefuseFit("out is stored at ", operand.offset_bytes, " of buffer ", operand.buffer,
                     ", belongs into buffer ", want);
  }
  if (output >= 0 && stored_[static_cast<size_t>(output)]) {
    return RefuseFit("output ", output, " is stored twice");
  }
  return absl::OkStatus();
}

absl::Status Meaning::AddStitch(const StitchSpec& stitch) {
  const Chain& body = stitch.body;
  std::vector<Class> inputs;
  for (int i = 0; i < body.num_inputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const Class value, ClassOfInput(stitch, i));
    inputs.push_back(value);
  }
  const std::vector<Class> values = of_->classes().OfBody(body, inputs);
  for (int i = 0; i < body.num_outputs(); ++i) {
    const ValueId value = body.outputs()[static_cast<size_t>(i)].value;
    SINTER_RETURN_IF_ERROR(Store(stitch, i, values[static_cast<size_t>(value)]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Meaning::Class> Meaning::ClassOfInput(const StitchSpec& stitch, int input) const {
  const StitchOperand& operand = stitch.operands[static_cast<size_t>(input)];
  const Op& op = stitch.body.input_op(input);
  const int inputs = chain_.num_inputs();
  const auto differs = [&](absl::string_view what) {
    return RefuseFit("input ", input, " is read at ", operand.offset_bytes, " of buffer ",
                     operand.buffer, ": ", what);
  };
  if (operand.buffer == kWorkspaceBuffer) {
    const auto held = workspace_.find(operand.offset_bytes);
    if (held == workspace_.end()) return differs("no tensor begins there");
    if (held->second.type != op.type || op.strides != ContiguousStrides(op.type.dims)) {
      return differs("another type lies there");
    }
    if (op.constant) return differs("it is no constant");
    return held->second.value;
  }
  if (operand.offset_bytes != 0) return differs("it begins at 0");
  if (operand.buffer < inputs) {
    const Op& of = chain_.input_op(operand.buffer);
    if (of.type != op.type || of.strides != op.strides) return differs("another type lies there");
    if (op.constant && !of.constant) return differs("it is no constant");
    return of_->classes().Of(chain_.input(operand.buffer));
  }
  const int output = operand.buffer - inputs;
  if (output >= chain_.num_outputs()) return differs("there is none");
  const ChainOutput& of = chain_.outputs()[static_cast<size_t>(output)];
  if (!stored_[static_cast<size_t>(output)]) return differs("no earlier kernel stored it");
  if (chain_.output_type(output) != op.type || of.strides != op.strides) {
    return differs("another type lies there");
  }
  if (op.constant) return differs("it is no constant");
  return of_->classes().Of(of.value);
}

absl::Status Meaning::Store(const StitchSpec& stitch, int output, Class value) {
  const StitchOperand& operand =
      stitch.operands[static_cast<size_t>(stitch.body.num_inputs() + output)];
  if (operand.buffer != kWorkspaceBuffer) return StoreOutput(stitch, output, value);
  const ChainOutput& own = stitch.body.outputs()[static_cast<size_t>(output)];
  const TensorType& type = stitch.body.output_type(output);
  if (own.strides != ContiguousStrides(type.dims) || own.alias_input >= 0) {
    return RefuseFit("output ", output, " is not contiguous in a place of its own");
  }
  workspace_[operand.offset_bytes] = {value, type};
  return absl::OkStatus();
}

absl::Status Meaning::StoreOutput(const StitchSpec& stitch, int output, Class value) {
  const StitchOperand& operand =
      stitch.operands[static_cast<size_t>(stitch.body.num_inputs() + output)];
  const int of = operand.buffer - chain_.num_inputs();
  if (of < 0 || of >= chain_.num_outputs() || operand.offset_bytes != 0) {
    return RefuseFit("output ", output, " is stored at ", operand.offset_bytes, " of buffer ",
                     operand.buffer, ", which is no output");
  }
  const ChainOutput& want = chain_.outputs()[static_cast<size_t>(of)];
  if (stored_[static_cast<size_t>(of)]) return RefuseFit("output ", of, " is stored twice");
  if (stitch.body.output_type(output) != chain_.output_type(of) ||
      stitch.body.outputs()[static_cast<size_t>(output)].strides != want.strides) {
    return RefuseFit("output ", of, " is stored as another type");
  }
  if (value != of_->classes().Of(want.value)) {
    return RefuseFit("output ", of, " is not what the chain computes");
  }
  SINTER_RETURN_IF_ERROR(CheckAlias(stitch, output, want.alias_input));
  stored_[static_cast<size_t>(of)] = true;
  return absl::OkStatus();
}

// A kernel whose output takes the buffer of an input that it reads must declare this in its body:
// generated code then stores an element only when no thread reads it any more. `alias`: of the
// chain.
absl::Status Meaning::CheckAlias(const StitchSpec& stitch, int output, int alias) const {
  const int own = stitch.body.outputs()[static_cast<size_t>(output)].alias_input;
  for (int i = 0; i < stitch.body.num_inputs(); ++i) {
    const bool same = alias >= 0 && stitch.operands[static_cast<size_t>(i)].buffer == alias;
    if (same == (own == i)) continue;
    return RefuseFit("output ", output, same ? " does not say that it" : " says that it",
                     " takes the place of input ", i);
  }
  return absl::OkStatus();
}

absl::Status Meaning::Finish() const {
  for (size_t i = 0; i < stored_.size(); ++i) {
    if (!stored_[i]) return RefuseFit("no kernel stores output ", i);
  }
  return absl::OkStatus();
}

}  // namespace sinter
