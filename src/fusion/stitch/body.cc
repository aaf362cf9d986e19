#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/linear_finder.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {
namespace {

class Extractor {
 public:
  Extractor(const StitchGraph& graph, const NodeSet& vertices, bool turn_reductions)
      : graph_(graph),
        chain_(graph.chain()),
        vertices_(vertices),
        turn_reductions_(turn_reductions) {}

  absl::StatusOr<StitchBody> Run() {
    FindNeeded();
    vertices_.ForEach([&](int v) {
      const std::vector<ValueId>& values = graph_.vertex(v).values;
      result_.ops.values.insert(result_.ops.values.end(), values.begin(), values.end());
    });
    std::sort(result_.ops.values.begin(), result_.ops.values.end());
    result_.ops.turned = turn_reductions_;
    for (const auto& [value, id] : ids_) order_.push_back(value);
    for (ValueId value : order_) SINTER_RETURN_IF_ERROR(Add(value));
    SINTER_RETURN_IF_ERROR(AddOutputs());
    SINTER_ASSIGN_OR_RETURN(result_.body, builder_.Finish());
    for (int32_t caller : result_.body.InputOrder()) {
      result_.inputs.push_back(callers_inputs_[static_cast<size_t>(caller)]);
    }
    // A body that is too long is refused by who asked for it.
    if (turn_reductions_ || !CheckBodyLength(result_.body).ok()) return std::move(result_);
    SINTER_ASSIGN_OR_RETURN(std::optional<Chain> straight, WithStraightReductions(result_.body));
    if (!straight.has_value()) return std::move(result_);
    result_.body = *std::move(straight);
    std::vector<ValueId> inputs;
    for (int32_t before : result_.body.InputOrder()) {
      inputs.push_back(result_.inputs[static_cast<size_t>(before)]);
    }
    result_.inputs = std::move(inputs);
    return std::move(result_);
  }

 private:
  bool IsMember(ValueId value) const {
    const int v = graph_.VertexOf(value);
    return v >= 0 && vertices_.Contains(v) && (!graph_.IsInlined(value) || IsRoot(value));
  }
  bool IsRoot(ValueId value) const { return graph_.vertex(graph_.VertexOf(value)).root() == value; }
  bool IsComputed(ValueId value) const {
    if (chain_.op(value).kind == OpKind::kInput) return false;
    return IsMember(value) || graph_.IsInlined(value);
  }

  // Finds the members, the values computed with them, and the inputs.
  void FindNeeded() {
    std::vector<ValueId> open;
    vertices_.ForEach([&](int v) { open.push_back(graph_.vertex(v).root()); });
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (!ids_.emplace(value, -1).second || !IsComputed(value)) continue;
      for (ValueId operand : chain_.op(value).operands) open.push_back(operand);
    }
  }

  absl::Status Add(ValueId value) {
    if (!IsComputed(value)) return AddInput(value);
    Op op = chain_.op(value);
    for (ValueId& operand : op.operands) operand = ids_.at(operand);
    if (turn_reductions_ && ReducesMiddle(op)) {
      SINTER_ASSIGN_OR_RETURN(ids_[value], AddTurned(op));
      return absl::OkStatus();
    }
    SINTER_ASSIGN_OR_RETURN(ids_[value], Replay(builder_, op, false));
    return absl::OkStatus();
  }

  static bool Reduces(const Op& op, size_t axis) {
    return std::count(op.axes.begin(), op.axes.end(), static_cast<int32_t>(axis)) > 0;
  }

  // Whether the reduced axes are neither the first nor the last ones, ignoring extents of 1.
  bool ReducesMiddle(const Op& op) const {
    if (op.kind != OpKind::kReduce) return false;
    const std::vector<Dim>& dims = builder_.TypeOf(op.operands[0]).dims;
    int runs = 0;  // of axes that are all reduced or all kept
    bool last = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == Dim::Constant(1)) continue;
      const bool reduced = Reduces(op, i);
      runs += runs == 0 || reduced != last;
      last = reduced;
    }
    return runs > 2;
  }

  // Transposes the kept axes to the front, or after the reduced ones if M is among those: it stays
  // in front. Precondition: operands are the builder's.
  absl::StatusOr<ValueId> AddTurned(const Op& op) {
    std::vector<int32_t> order, axes;
    const std::vector<Dim>& dims = builder_.TypeOf(op.operands[0]).dims;
    const auto rank = static_cast<int32_t>(dims.size());
    const bool of_m = Reduces(op, 0) && dims[0].symbolic;
    for (const bool reduced : {of_m, !of_m}) {
      for (int32_t i = 0; i < rank; ++i) {
        if (Reduces(op, static_cast<size_t>(i)) != reduced) continue;
        if (reduced) axes.push_back(static_cast<int32_t>(order.size()));
        order.push_back(i);
      }
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId turned, builder_.Transpose(op.operands[0], order));
    SINTER_ASSIGN_OR_RETURN(const ValueId rows, builder_.Reduce(op.reduce, turned, axes));
    if (!op.keepdims) return rows;
    return builder_.Reshape(rows, op.type.dims);
  }

  absl::Status AddInput(ValueId value) {
    const Op& op = chain_.op(value);
    const bool input = op.kind == OpKind::kInput;
    InputOptions options;
    options.constant = input && op.constant;
    options.strides = StridesInMemory(chain_, value);
    const DType stored = input ? op.type.dtype : graph_.StoredDType(value);
    SINTER_ASSIGN_OR_RETURN(const ValueId id, builder_.Input({stored, op.type.dims}, options));
    callers_inputs_.push_back(value);
    input_ids_[value] = id;
    ids_[value] = id;
    if (stored == op.type.dtype) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(ids_[value], builder_.Cast(id, op.type.dtype));
    return absl::OkStatus();
  }

  absl::Status AddOutputs() {
    for (ValueId value : order_) {
      if (!IsMember(value) || !IsRoot(value)) continue;
      bool given = false;
      for (int i = 0; i < chain_.num_outputs(); ++i) {
        if (chain_.outputs()[static_cast<size_t>(i)].value != value) continue;
        SINTER_RETURN_IF_ERROR(AddChainOutput(value, i));
        given = true;
      }
      if (given || !Leaves(value)) continue;
      ValueId id = ids_.at(value);
      const DType stored = graph_.StoredDType(value);
      if (stored != chain_.op(value).type.dtype) {
        SINTER_ASSIGN_OR_RETURN(id, builder_.Cast(id, stored));
      }
      SINTER_RETURN_IF_ERROR(builder_.Output(id));
      result_.outputs.push_back({value, -1});
    }
    return absl::OkStatus();
  }

  absl::Status AddChainOutput(ValueId value, int index) {
    const ChainOutput& out = chain_.outputs()[static_cast<size_t>(index)];
    OutputOptions options;
    options.strides = out.strides;
    if (out.alias_input >= 0) {
      const auto read = input_ids_.find(chain_.input(out.alias_input));
      if (read != input_ids_.end()) options.alias = read->second;
    }
    SINTER_RETURN_IF_ERROR(builder_.Output(ids_.at(value), options));
    result_.outputs.push_back({value, index});
    return absl::OkStatus();
  }

  bool Leaves(ValueId value) const {
    return graph_.Leaves(graph_.vertex(graph_.VertexOf(value)).tensor, vertices_);
  }

  const StitchGraph& graph_;
  const Chain& chain_;
  const NodeSet& vertices_;
  const bool turn_reductions_;
  ChainBuilder builder_;
  StitchBody result_;
  std::map<ValueId, ValueId> ids_;        // of the chain -> of the builder
  std::map<ValueId, ValueId> input_ids_;  // inputs, in their stored dtype
  std::vector<ValueId> order_, callers_inputs_;
};

// Without reductions the ops are written out for each output.
constexpr int64_t kMostWritten = 4400, kMostFlatWritten = 2000;

}  // namespace

absl::StatusOr<StitchBody> ExtractBody(const StitchGraph& graph, const NodeSet& vertices,
                                       bool turn_reductions) {
  return Extractor(graph, vertices, turn_reductions).Run();
}

absl::Status CheckBodyLength(const Chain& body) {
  int64_t concatenations = 0;
  bool reduces = false;
  for (const Op& op : body.ops()) {
    concatenations += op.kind == OpKind::kConcat;
    reduces |= op.kind == OpKind::kReduce || TakesRow(op);
  }
  const auto ops = static_cast<int64_t>(body.ops().size());
  const int64_t most = reduces ? kMostWritten : kMostFlatWritten;
  if (ops * (1 + concatenations) <= most) return absl::OkStatus();
  return FailedPrecondition(ops, " ops around ", concatenations,
                            " concatenations take a compiler too long");
}

}  // namespace sinter
