#include "src/explain/joined_body.h"

#include <map>

#include "src/base/status.h"
#include "src/chain/replay.h"

namespace sinter {
namespace {

class Joiner {
 public:
  // Adds the ops of `named`; returns their values.
  absl::StatusOr<std::vector<ValueId>> Add(const NamedBody& named) {
    const Chain& body = *named.body;
    std::vector<ValueId> ids;
    for (Op op : body.ops()) {
      if (op.kind == OpKind::kInput) {
        SINTER_ASSIGN_OR_RETURN(const ValueId id,
                                Input(op, named.tensors[static_cast<size_t>(op.input)]));
        ids.push_back(id);
        continue;
      }
      for (ValueId& operand : op.operands) operand = ids[static_cast<size_t>(operand)];
      SINTER_ASSIGN_OR_RETURN(const ValueId id, Replay(builder_, op, false));
      ids.push_back(id);
    }
    for (int i = 0; i < body.num_outputs(); ++i) {
      const ValueId value = body.outputs()[static_cast<size_t>(i)].value;
      made_[TensorOf(named, i)] = ids[static_cast<size_t>(value)];
    }
    return ids;
  }

  absl::Status AddOutputs(const NamedBody& named, const std::vector<ValueId>& ids,
                          const std::set<int>* wanted) {
    for (int i = 0; i < named.body->num_outputs(); ++i) {
      if (wanted != nullptr && wanted->count(TensorOf(named, i)) == 0) continue;
      const ChainOutput& out = named.body->outputs()[static_cast<size_t>(i)];
      OutputOptions options;
      options.strides = out.strides;
      if (out.alias_input >= 0) {
        const auto read = read_.find(named.tensors[static_cast<size_t>(out.alias_input)]);
        if (read != read_.end()) options.alias = read->second;
      }
      SINTER_RETURN_IF_ERROR(builder_.Output(ids[static_cast<size_t>(out.value)], options));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Chain> Finish() { return builder_.Finish(); }

 private:
  static int TensorOf(const NamedBody& named, int output) {
    return named.tensors[static_cast<size_t>(named.body->num_inputs() + output)];
  }

  absl::StatusOr<ValueId> Input(const Op& op, int tensor) {
    for (const auto* known : {&made_, &read_}) {
      const auto found = known->find(tensor);
      if (found != known->end() && builder_.TypeOf(found->second) == op.type) return found->second;
    }
    InputOptions options;
    options.constant = op.constant;
    options.strides = op.strides;
    SINTER_ASSIGN_OR_RETURN(const ValueId id, builder_.Input(op.type, options));
    read_[tensor] = id;
    return id;
  }

  ChainBuilder builder_;
  std::map<int, ValueId> made_, read_;  // by tensor
};

}  // namespace

absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted) {
  Joiner joiner;
  SINTER_ASSIGN_OR_RETURN(const std::vector<ValueId> head, joiner.Add(first));
  SINTER_ASSIGN_OR_RETURN(const std::vector<ValueId> tail, joiner.Add(second));
  SINTER_RETURN_IF_ERROR(joiner.AddOutputs(first, head, &wanted));
  SINTER_RETURN_IF_ERROR(joiner.AddOutputs(second, tail, nullptr));
  return joiner.Finish();
}

}  // namespace sinter
