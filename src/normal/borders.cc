#include <algorithm>
#include <utility>

#include "src/normal/rules.h"

namespace sinter {
namespace {

// Makes views of inputs inputs.
class InputViews {
 public:
  explicit InputViews(NormalGraph& graph) : graph_(graph) {}

  bool Run() {
    const std::vector<bool> behind = BehindProducts(graph_);
    with_.assign(static_cast<size_t>(graph_.size()), -1);
    for (const ValueId id : graph_.Order()) {
      const Op op = graph_.op(id);
      if (IsProduct(graph_, op)) {
        for (size_t i = 0; i < op.operands.size(); ++i) {
          if (i != 1 || !ReadsThrough(op.operands[i])) Take(op.operands[i], /*matrix=*/true);
        }
      } else if (op.kind == OpKind::kBinary && behind[static_cast<size_t>(id)]) {
        for (const ValueId operand : op.operands) TakeBeside(operand);
      }
    }
    if (!found_) return false;
    return graph_.Rewrite([&](ValueId id) {
      const ValueId with =
          static_cast<size_t>(id) < with_.size() ? with_[static_cast<size_t>(id)] : -1;
      return with >= 0 ? with : id;
    });
  }

 private:
  // Whether a product reads a weight through its view: one that keeps the last axis of an input.
  bool ReadsThrough(ValueId weight) const {
    if (graph_.op(weight).kind != OpKind::kReshape) return false;
    const Op& below = graph_.op(graph_.op(weight).operands[0]);
    return below.kind == OpKind::kInput && below.type.rank() >= 2 &&
           below.strides == ContiguousStrides(below.type.dims) &&
           below.type.dims.back() == graph_.type(weight).dims.back();
  }

  // An operand of an op behind a product: a matrix, or a vector spread over its rows.
  void TakeBeside(ValueId value) {
    while (graph_.op(value).kind == OpKind::kCast) value = graph_.op(value).operands[0];
    const bool spread = graph_.op(value).kind == OpKind::kBroadcast;
    if (spread) {
      value = graph_.op(value).operands[0];
      while (graph_.op(value).kind == OpKind::kCast) value = graph_.op(value).operands[0];
    }
    Take(value, !spread);
  }

  void Take(ValueId value, bool matrix) {
    if (!IsView(graph_.op(value)) || with_[static_cast<size_t>(value)] >= 0) return;
    ValueId base = -1;
    NormalLayout layout;
    if (!LayoutBelowViews(graph_, value, &base, &layout)) return;
    const Op& input = graph_.op(base);
    if (input.kind != OpKind::kInput || graph_.IsWritten(base)) return;
    const DType dtype = input.type.dtype;
    const bool rank1 = layout.dims.size() == 1 && layout.strides[0] == Stride{1, 0};
    if (!(rank1 || (matrix && IsMatrix(layout, dtype)) || IsWhole(layout))) return;
    if (!StartsAtVector(layout, dtype) || layout.offset > kMostOffset) return;
    graph_.WorkOn(value);
    with_[static_cast<size_t>(value)] =
        graph_.AddInput(base, {dtype, layout.dims}, layout.strides, layout.offset * SizeOf(dtype));
    found_ = true;
  }

  // Without gaps, as filters are read.
  static bool IsWhole(const NormalLayout& layout) {
    return layout.strides == ContiguousStrides(layout.dims);
  }

  static constexpr int64_t kMostOffset = int64_t{1} << 40;  // elements, as of all tensors

  NormalGraph& graph_;
  std::vector<ValueId> with_;  // by value: the input that takes its place
  bool found_ = false;
};

}  // namespace

bool ViewsOfInputs(NormalGraph& graph) { return InputViews(graph).Run(); }

bool ViewsOfResults(NormalGraph& graph) {
  // Casts and functions of reshaped results are reshapes of them.
  std::vector<bool> behind = BehindProducts(graph);
  const std::vector<std::vector<ValueId>> users = graph.Users();
  std::vector<bool> is_result = graph.IsResult();
  bool changed = graph.Rewrite([&](ValueId id) {
    const Op op = graph.op(id);
    if (op.kind != OpKind::kCast && op.kind != OpKind::kUnary) return id;
    const Op below = graph.op(op.operands[0]);
    if (below.kind != OpKind::kReshape) return id;
    const ValueId from = below.operands[0];
    const bool of_product = static_cast<size_t>(from) < behind.size() &&
                            behind[static_cast<size_t>(from)] &&
                            users[static_cast<size_t>(from)].size() == 1;
    if (!of_product || !is_result[static_cast<size_t>(id)]) return id;
    Op first = op;
    first.operands = {from};
    first.type.dims = graph.type(from).dims;
    return graph.AddView(OpKind::kReshape, graph.Add(std::move(first)), op.type.dims);
  });
  behind = BehindProducts(graph);
  is_result = graph.IsResult();
  for (size_t i = 0; i < graph.results().size(); ++i) {
    const NormalResult result = graph.results()[i];
    ValueId below = result.value;
    while (graph.op(below).kind == OpKind::kReshape) below = graph.op(below).operands[0];
    const auto at = static_cast<size_t>(below);
    if (below == result.value || result.alias >= 0 || !behind[at] || is_result[at]) continue;
    NormalLayout layout{graph.type(result.value).dims, result.strides, 0};
    if (!ReshapeLayout(graph.type(below).dims, &layout)) continue;
    graph.SetResult(i, below, layout.strides);
    is_result[at] = changed = true;
  }
  return changed;
}

bool ResultsApart(NormalGraph& graph) {
  std::vector<ValueId> given;
  bool changed = false;
  for (size_t i = 0; i < graph.results().size(); ++i) {
    const NormalResult result = graph.results()[i];
    ValueId value = result.value;
    if (std::find(given.begin(), given.end(), value) != given.end()) {
      graph.WorkOn(value);
      value = graph.AddView(OpKind::kReshape, value, graph.type(value).dims);
      graph.SetResult(i, value, result.strides);
      changed = true;
    }
    given.push_back(value);
  }
  return changed;
}

}  // namespace sinter
