#include "src/fusion/stitch/run_builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/fusion/product_plans.h"
#include "src/fusion/stitch/run_chain.h"

namespace sinter {
namespace {

// What blocks may still read of when another one stores its part of the result: weights, biases,
// factors, and the rows of a lone product. Rows of a first product of several have all been read
// when the last one stores them, and elements of a residual are read by who stores them.
std::vector<ValueId> ReadByOthers(const GraphRun& run) {
  std::vector<int> inputs;
  if (run.matched.size() == 1) inputs.push_back(run.matched.rows);
  for (const ProductInputs& in : run.matched.inputs) {
    inputs.insert(inputs.end(), {in.weights, in.weights_up, in.bias, in.bias_up, in.factor});
  }
  std::vector<ValueId> values;
  for (int input : inputs) {
    if (input >= 0) values.push_back(run.inputs[static_cast<size_t>(input)]);
  }
  return values;
}

}  // namespace

RunBuilder::RunBuilder(const Chain& chain, int64_t bucket)
    : chain_(chain), bucket_(bucket), is_output_(chain.ops().size(), false) {
  for (const ChainOutput& out : chain.outputs()) is_output_[static_cast<size_t>(out.value)] = true;
}

absl::StatusOr<GraphRun> RunBuilder::Build(const Values& members, ValueId a, DType dtype,
                                           ValueId end) const {
  SINTER_RETURN_IF_ERROR(CheckStored(a, dtype));
  SINTER_RETURN_IF_ERROR(CheckStored(end, dtype));
  SINTER_ASSIGN_OR_RETURN(GraphRun run, ChainOfRun(chain_, members, a, dtype, end));
  SINTER_ASSIGN_OR_RETURN(run.matched, MatchProducts(run.chain));
  SINTER_RETURN_IF_ERROR(CheckOperands(run));
  SINTER_RETURN_IF_ERROR(CheckEnd(run, end));
  SINTER_RETURN_IF_ERROR(CheckStrides(run.matched));
  ProductSequence& sequence = run.matched.sequence;
  sequence.m = run.matched.m.At(bucket_);
  for (int i = 0; i < sequence.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckSequence(sequence.Part(i, 1)));
  }
  run.group.values.assign(members.begin(), members.end());
  run.group.end = end;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const DType stored = run.chain.input_op(static_cast<int>(i)).type.dtype;
    run.group.operands.push_back({run.inputs[i], stored});
  }
  std::sort(run.group.operands.begin(), run.group.operands.end(),
            [](const OpaqueOperand& x, const OpaqueOperand& y) { return x.value < y.value; });
  run.group.dtype = dtype;
  return run;
}

// What is computed lies in memory as all its readers expect it. What a product hands over is
// rounded to the weights' dtype, which a factor of rows may not be.
absl::Status RunBuilder::CheckOperands(const GraphRun& run) const {
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const ValueId value = run.inputs[i];
    const DType stored = run.chain.input_op(static_cast<int>(i)).type.dtype;
    if (chain_.op(value).kind == OpKind::kInput || RoundedAlike(value, stored)) continue;
    return absl::InvalidArgumentError(absl::StrCat("op ", value, " (", NameOf(chain_.op(value)),
                                                   ") is read as ", NameOf(stored),
                                                   " and lies in memory as another dtype"));
  }
  for (const ProductInputs& in : run.matched.inputs) {
    if (in.factor < 0) continue;
    const ValueId factor = run.inputs[static_cast<size_t>(in.factor)];
    if (ClassOf(chain_, factor) != OpClass::kProduct) continue;
    return absl::InvalidArgumentError(absl::StrCat("op ", factor, " (", NameOf(chain_.op(factor)),
                                                   ") is a factor and a product"));
  }
  return absl::OkStatus();
}

// A sum is rounded where the chain rounds it: it may be what the chain carries on, layer by layer.
absl::Status RunBuilder::CheckEnd(const GraphRun& run, ValueId end) const {
  const MatrixProduct& last = run.matched.sequence.back();
  if (last.epilogue.has_residual() && chain_.op(end).type.dtype != last.result) {
    return absl::InvalidArgumentError(absl::StrCat("op ", end, " (", NameOf(chain_.op(end)),
                                                   ") is a sum that the chain does not round"));
  }
  for (const ChainOutput& out : chain_.outputs()) {
    if (out.value != end || out.alias_input < 0) continue;
    for (ValueId read : ReadByOthers(run)) {
      if (read != chain_.input(out.alias_input)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("its result shares the buffer of input ", out.alias_input,
                       ", of which other blocks read what one writes"));
    }
  }
  return absl::OkStatus();
}

// Whether `value` may lie in memory as `dtype`.
absl::Status RunBuilder::CheckStored(ValueId value, DType dtype) const {
  const Op& op = chain_.op(value);
  if (op.type.dtype == dtype) return absl::OkStatus();
  if (op.kind != OpKind::kInput && op.type.dtype == DType::kF32 && !IsOutput(value) &&
      RoundedAlike(value, dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("op ", value, " (", NameOf(op), ") is ",
                                                 NameOf(op.type.dtype),
                                                 " in memory, the weights are ", NameOf(dtype)));
}

// No run before has it rounded to another dtype.
bool RunBuilder::RoundedAlike(ValueId value, DType dtype) const {
  const auto known = rounded_.find(value);
  return known == rounded_.end() || known->second == dtype;
}

void RunBuilder::Note(const GraphRun& run) {
  rounded_[run.group.end] = run.group.dtype;
  for (const OpaqueOperand& operand : run.group.operands) rounded_[operand.value] = operand.dtype;
}

bool RunBuilder::IsRounded(ValueId value, DType dtype) const {
  const auto known = rounded_.find(value);
  return known != rounded_.end() && known->second == dtype;
}

}  // namespace sinter
