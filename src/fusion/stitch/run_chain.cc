#include "src/fusion/stitch/run_chain.h"

#include <map>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/replay.h"
#include "src/fusion/stitch/body.h"

namespace sinter {
namespace {

class RunChainMaker {
 public:
  RunChainMaker(const Chain& chain, const std::set<ValueId>& members, ValueId a, DType dtype)
      : chain_(chain), members_(members), a_(a), dtype_(dtype) {}

  absl::StatusOr<GraphRun> Run(ValueId end) {
    SINTER_RETURN_IF_ERROR(AddAll(end));
    ValueId result = ids_.at(end);
    if (builder_.TypeOf(result).dtype != dtype_) {
      SINTER_ASSIGN_OR_RETURN(result, builder_.Cast(result, dtype_));
    }
    OutputOptions options;
    options.strides = StridesInMemory(chain_, end);
    SINTER_RETURN_IF_ERROR(builder_.Output(result, options));
    GraphRun run;
    SINTER_ASSIGN_OR_RETURN(run.chain, builder_.Finish());
    for (int32_t caller : run.chain.InputOrder()) {
      run.inputs.push_back(callers_inputs_[static_cast<size_t>(caller)]);
    }
    return run;
  }

 private:
  bool IsInput(ValueId value) const {
    if (value == a_ || chain_.op(value).kind == OpKind::kInput) return true;
    if (members_.count(value) > 0) return false;
    const OpClass op_class = ClassOf(chain_, value);
    return op_class != OpClass::kView && op_class != OpClass::kSource;
  }

  absl::Status AddAll(ValueId end) {
    std::set<ValueId> needed;
    std::vector<ValueId> open = {end};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!needed.insert(value).second || IsInput(value)) continue;
      for (ValueId operand : chain_.op(value).operands) open.push_back(operand);
    }
    for (ValueId value : needed) SINTER_RETURN_IF_ERROR(Add(value));
    return absl::OkStatus();
  }

  absl::Status Add(ValueId value) {
    Op op = chain_.op(value);
    if (IsInput(value)) return AddInput(value, op);
    for (ValueId& operand : op.operands) operand = ids_.at(operand);
    SINTER_ASSIGN_OR_RETURN(ids_[value], Replay(builder_, op, false));
    return absl::OkStatus();
  }

  absl::Status AddInput(ValueId value, const Op& op) {
    InputOptions options;
    options.constant = op.kind == OpKind::kInput && op.constant;
    options.strides = StridesInMemory(chain_, value);
    const bool rounded = value == a_ && op.kind != OpKind::kInput;
    const DType stored = rounded ? dtype_ : op.type.dtype;
    SINTER_ASSIGN_OR_RETURN(ids_[value], builder_.Input({stored, op.type.dims}, options));
    callers_inputs_.push_back(value);
    if (stored == op.type.dtype) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(ids_[value], builder_.Cast(ids_[value], op.type.dtype));
    return absl::OkStatus();
  }

  const Chain& chain_;
  const std::set<ValueId>& members_;
  const ValueId a_;
  const DType dtype_;
  ChainBuilder builder_;
  std::map<ValueId, ValueId> ids_;
  std::vector<ValueId> callers_inputs_;
};

}  // namespace

absl::StatusOr<GraphRun> ChainOfRun(const Chain& chain, const std::set<ValueId>& members, ValueId a,
                                    DType dtype, ValueId end) {
  return RunChainMaker(chain, members, a, dtype).Run(end);
}

}  // namespace sinter
