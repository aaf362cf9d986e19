#include <algorithm>
#include <numeric>
#include <utility>

#include "src/normal/rules.h"

namespace sinter {
namespace {

// Views in a row that have the layout of one slice, one reshape and one transpose.
struct PlainViews {
  std::vector<int64_t> starts;
  std::vector<Dim> extents;   // of the slice
  std::vector<Dim> reshaped;  // in the order in which the elements lie
  std::vector<int32_t> axes;  // of the transpose
};

bool LeadsWithM(const std::vector<Dim>& dims) { return SymbolicAxis(dims) <= 0; }

// Cuts `offset`, in elements of a tensor of `dims` without gaps, into an index of each axis.
bool StartsAt(int64_t offset, const std::vector<Dim>& dims, std::vector<int64_t>* starts) {
  starts->assign(dims.size(), 0);
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].symbolic) return offset == 0;
    (*starts)[i] = offset % dims[i].value;
    offset /= dims[i].value;
  }
  return offset == 0;
}

// The axes of `layout` from the outermost to the innermost, in the order of a tensor of `base` dims
// without gaps: each axis of `base` is a part of itself, cut into some of them. False otherwise.
bool FindPlainViews(const NormalLayout& layout, const std::vector<Dim>& base, PlainViews* found) {
  std::vector<int32_t> order(layout.dims.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_long = [&](int32_t axis) {
    return layout.dims[static_cast<size_t>(axis)] != Dim::Constant(1);
  };
  const auto stride = [&](int32_t axis) { return layout.strides[static_cast<size_t>(axis)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (is_long(a) != is_long(b)) return !is_long(a);
    if (!is_long(a)) return false;
    if (stride(a).m_power != stride(b).m_power) return stride(a).m_power > stride(b).m_power;
    return stride(a).value > stride(b).value;
  });
  if (!StartsAt(layout.offset, base, &found->starts)) return false;
  const std::vector<Stride> steps = ContiguousStrides(base);
  found->extents.assign(base.size(), Dim::Constant(1));
  size_t next = 0;
  while (next < order.size() && !is_long(order[next])) ++next;
  for (size_t i = 0; i < base.size(); ++i) {
    // Axes whose elements are less than one step of the axis outside apart.
    Dim& extent = found->extents[i];
    int64_t count = 1;
    size_t end = next;
    while (end < order.size() && stride(order[end]).m_power == steps[i].m_power &&
           stride(order[end]).value >= steps[i].value) {
      const Dim dim = layout.dims[static_cast<size_t>(order[end])];
      if (dim.symbolic && (end > next || !base[i].symbolic)) return false;
      if (dim.symbolic) extent = Dim::M();
      count *= dim.symbolic ? 1 : dim.value;
      ++end;
    }
    // They are contiguous.
    Stride expected = steps[i];
    for (size_t k = end; k-- > next;) {
      if (stride(order[k]) != expected) return false;
      const Dim dim = layout.dims[static_cast<size_t>(order[k])];
      expected = dim.symbolic ? Stride{expected.value, expected.m_power + 1}
                              : Stride{expected.value * dim.value, expected.m_power};
    }
    if (extent.symbolic && count != 1) return false;  // elements of the axis outside are among them
    if (!extent.symbolic) extent = Dim::Constant(count);
    if (extent.symbolic != base[i].symbolic && !(extent == Dim::Constant(1))) return false;
    if (base[i].symbolic && !extent.symbolic) return false;
    if (!base[i].symbolic && found->starts[i] + extent.value > base[i].value) return false;
    next = end;
  }
  if (next != order.size()) return false;
  found->axes.assign(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    found->reshaped.push_back(layout.dims[static_cast<size_t>(order[i])]);
    found->axes[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  }
  return LeadsWithM(found->reshaped);
}

// Whether M leads the base and the value, and not each of the views between.
bool IsTroubled(const NormalGraph& graph, ValueId value) {
  if (!LeadsWithM(graph.type(value).dims)) return false;
  bool between = false;
  ValueId below = graph.op(value).operands[0];
  for (; IsView(graph.op(below)); below = graph.op(below).operands[0]) {
    between = between || !LeadsWithM(graph.type(below).dims);
  }
  return between && LeadsWithM(graph.type(below).dims);
}

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

  // An operand of an op that consumes a product: a matrix, or a vector spread over its rows.
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

  static constexpr int64_t kMostOffset = int64_t{1} << 40;  // elements, as for all tensors

  NormalGraph& graph_;
  std::vector<ValueId> with_;  // by value: the input that takes its place
  bool found_ = false;
};

}  // namespace

bool ViewsInOrder(NormalGraph& graph) {
  return graph.Rewrite([&](ValueId id) {
    if (!IsView(graph.op(id)) || !IsTroubled(graph, id)) return id;
    ValueId base = -1;
    NormalLayout layout;
    PlainViews plain;
    if (!LayoutBelowViews(graph, id, &base, &layout)) return id;
    // For an input too, the views are of its elements, not of its memory.
    NormalLayout views{graph.type(base).dims, ContiguousStrides(graph.type(base).dims), 0};
    std::vector<ValueId> chain;
    for (ValueId v = id; v != base; v = graph.op(v).operands[0]) chain.push_back(v);
    for (auto v = chain.rbegin(); v != chain.rend(); ++v) {
      if (!ViewLayout(graph.op(*v), &views)) return id;
    }
    const std::vector<Dim> dims = graph.type(base).dims;
    if (!FindPlainViews(views, dims, &plain)) return id;
    ValueId value = base;
    if (plain.extents != dims) value = graph.AddSlice(value, plain.starts, plain.extents);
    if (plain.reshaped != graph.type(value).dims) {
      value = graph.AddView(OpKind::kReshape, value, plain.reshaped);
    }
    if (!std::is_sorted(plain.axes.begin(), plain.axes.end())) {
      value = graph.AddTranspose(value, plain.axes);
    }
    return value;
  });
}

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
