#include <utility>

#include "src/chain/linear_finder.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

bool SameButForOperands(const Op& a, const Op& b) {
  return a.kind == b.kind && a.unary == b.unary && a.binary == b.binary && a.compare == b.compare &&
         a.reduce == b.reduce && a.transpose_a == b.transpose_a && a.transpose_b == b.transpose_b &&
         a.keepdims == b.keepdims && a.axis == b.axis && a.scalar == b.scalar && a.axes == b.axes &&
         a.starts == b.starts && a.steps == b.steps && a.conv == b.conv &&
         a.operands.size() == b.operands.size();
}

bool Commutes(const Op& op) { return op.kind == OpKind::kBinary && TraitsOf(op.binary).commutes; }

class Matcher {
 public:
  using Pair = std::pair<ValueId, ValueId>;  // (of the graph, of the pattern)
  Matcher(const Subgraph& graph, const Chain& pattern,
          const std::function<bool(const std::vector<ValueId>&)>& accept, bool types)
      : graph_(graph),
        pattern_(pattern),
        accept_(accept),
        types_(types),
        bound_(pattern.num_inputs(), -1) {}

  // Whether all of `pending` can hold together. Backtracks over the operand order of commuting ops.
  bool Match(std::vector<Pair> pending) {
    if (pending.empty()) return accept_(bound_);
    const auto [value, wanted] = pending.back();
    pending.pop_back();
    const Op& want = pattern_.op(wanted);
    if (want.kind == OpKind::kInput) return MatchInput(value, want.input, std::move(pending));
    const Op& have = graph_.op(value);
    if (!SameButForOperands(have, want)) return false;
    if (types_ && !(have.type == want.type)) return false;
    const size_t rest = pending.size();
    for (size_t i = 0; i < want.operands.size(); ++i) {
      pending.emplace_back(have.operands[i], want.operands[i]);
    }
    if (Match(pending)) return true;
    if (!Commutes(want)) return false;
    std::swap(pending[rest].first, pending[rest + 1].first);
    return Match(std::move(pending));
  }

 private:
  bool MatchInput(ValueId value, int input, std::vector<Pair> pending) {
    if (bound_[input] >= 0) return bound_[input] == value && Match(std::move(pending));
    bound_[input] = value;
    if (Match(std::move(pending))) return true;
    bound_[input] = -1;
    return false;
  }

  const Subgraph& graph_;
  const Chain& pattern_;
  const std::function<bool(const std::vector<ValueId>&)>& accept_;
  const bool types_;
  std::vector<ValueId> bound_;
};

}  // namespace

int OutputOf(const Chain& chain, ValueId value) {
  for (int i = 0; i < chain.num_outputs(); ++i) {
    if (chain.outputs()[static_cast<size_t>(i)].value == value) return i;
  }
  return -1;
}

ValueId OtherOperand(const Chain& chain, ValueId id, BinaryKind kind, ValueId operand) {
  if (id < 0 || !IsBinary(chain.op(id), kind)) return -1;
  const std::vector<ValueId>& sides = chain.op(id).operands;
  const ValueId other = sides[0] == operand ? sides[1] : sides[0];
  return other != operand && (sides[0] == operand || sides[1] == operand) ? other : -1;
}

ValueId BelowWidening(const Chain& chain, ValueId id) {
  const Op& op = chain.op(id);
  if (op.kind != OpKind::kCast || op.type.dtype != DType::kF32) return id;
  const DType from = chain.op(op.operands[0]).type.dtype;
  return from == DType::kBF16 || from == DType::kF16 ? op.operands[0] : id;
}

std::vector<Stride> StridesInMemory(const Chain& chain, ValueId value) {
  const Op& op = chain.op(value);
  if (op.kind == OpKind::kInput) return op.strides;
  const int output = OutputOf(chain, value);
  return output >= 0 ? chain.outputs()[static_cast<size_t>(output)].strides
                     : ContiguousStrides(op.type.dims);
}

Subgraph::Subgraph(const Chain& chain)
    : Subgraph(chain, chain.outputs()[0].value, chain.output_type(0), chain.outputs()[0].strides) {
  for (int i = 0; i < chain.num_inputs(); ++i) operands_.push_back(chain.input(i));
}

Subgraph::Subgraph(const Chain& chain, ValueId result, const TensorType& type,
                   std::vector<Stride> strides)
    : chain_(chain), result_(result), type_(type), strides_(std::move(strides)) {}

void Subgraph::AddOperand(ValueId value, DType dtype, std::vector<Stride> strides) {
  const Op& of = chain_.op(value);
  Op input;
  input.type = {dtype, of.type.dims};
  input.constant = of.kind == OpKind::kInput && of.constant;
  input.input = static_cast<int32_t>(operands_.size());
  input.strides = std::move(strides);
  operands_.push_back(value);
  own_.emplace(value, std::move(input));
}

bool MatchPattern(const Subgraph& graph, ValueId value, const Chain& pattern,
                  const std::function<bool(const std::vector<ValueId>&)>& accept, bool types) {
  return Matcher(graph, pattern, accept, types).Match({{value, pattern.outputs()[0].value}});
}

}  // namespace sinter
