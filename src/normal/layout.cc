#include <algorithm>
#include <tuple>

#include "src/normal/rules.h"

namespace sinter {
namespace {

// A number of elements: count * M^symbols.
struct Extent {
  int64_t count = 1;
  int symbols = 0;
  void Take(Dim dim) { dim.symbolic ? ++symbols : static_cast<int>(count *= dim.value); }
  SINTER_FIELDS(Extent, count, symbols);
  bool operator<(const Extent& o) const {
    return std::tie(symbols, count) < std::tie(o.symbols, o.count);
  }
};

Stride Times(Stride stride, Dim dim) {
  if (dim.symbolic) return {stride.value, stride.m_power + 1};
  return {stride.value * dim.value, stride.m_power};
}

bool IsOne(Dim dim) { return dim == Dim::Constant(1); }

// Axes of other extents than 1.
std::vector<size_t> LongAxes(const std::vector<Dim>& dims) {
  std::vector<size_t> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!IsOne(dims[i])) axes.push_back(i);
  }
  return axes;
}

}  // namespace

bool ReshapeLayout(const std::vector<Dim>& to, NormalLayout* layout) {
  const std::vector<Dim>& dims = layout->dims;
  const std::vector<size_t> from_axes = LongAxes(dims), to_axes = LongAxes(to);
  std::vector<Stride> strides(to.size());
  size_t i = 0, j = 0;
  while (i < from_axes.size() && j < to_axes.size()) {
    Extent from, of_to;
    const size_t first_from = i, first_to = j;
    from.Take(dims[from_axes[i++]]);
    of_to.Take(to[to_axes[j++]]);
    while (!(from == of_to)) {
      if (from < of_to) {
        if (i == from_axes.size()) return false;
        from.Take(dims[from_axes[i++]]);
      } else {
        if (j == to_axes.size()) return false;
        of_to.Take(to[to_axes[j++]]);
      }
    }
    for (size_t k = first_from; k + 1 < i; ++k) {
      const size_t inner = from_axes[k + 1];
      if (layout->strides[from_axes[k]] != Times(layout->strides[inner], dims[inner])) return false;
    }
    Stride stride = layout->strides[from_axes[i - 1]];
    for (size_t k = j; k-- > first_to;) {
      strides[to_axes[k]] = stride;
      stride = Times(stride, to[to_axes[k]]);
    }
  }
  if (i < from_axes.size() || j < to_axes.size()) return false;
  // The stride of an axis with one index does not matter: it is set as if its rows had no gaps.
  Stride next{1, 0};
  for (size_t k = to.size(); k-- > 0;) {
    if (IsOne(to[k])) strides[k] = next;
    next = Times(strides[k], to[k]);
  }
  layout->dims = to;
  layout->strides = std::move(strides);
  return true;
}

bool ViewLayout(const Op& view, NormalLayout* layout) {
  if (view.kind == OpKind::kReshape) return ReshapeLayout(view.type.dims, layout);
  if (view.kind == OpKind::kTranspose) {
    NormalLayout turned;
    turned.offset = layout->offset;
    for (const int32_t axis : view.axes) {
      turned.dims.push_back(layout->dims[static_cast<size_t>(axis)]);
      turned.strides.push_back(layout->strides[static_cast<size_t>(axis)]);
    }
    *layout = std::move(turned);
    return true;
  }
  if (view.kind != OpKind::kSlice) return false;
  for (size_t i = 0; i < layout->dims.size(); ++i) {
    Stride& stride = layout->strides[i];
    if (view.starts[i] != 0 && stride.m_power > 0) return false;
    layout->offset += view.starts[i] * stride.value;
    stride.value *= view.steps[i];
  }
  layout->dims = view.type.dims;
  return true;
}

bool LayoutBelowViews(const NormalGraph& graph, ValueId value, ValueId* base,
                      NormalLayout* layout) {
  std::vector<ValueId> views;
  while (IsView(graph.op(value))) {
    views.push_back(value);
    value = graph.op(value).operands[0];
  }
  *base = value;
  const Op& op = graph.op(value);
  layout->dims = op.type.dims;
  layout->strides = op.kind == OpKind::kInput ? op.strides : ContiguousStrides(op.type.dims);
  layout->offset = 0;
  return std::all_of(views.rbegin(), views.rend(),
                     [&](ValueId view) { return ViewLayout(graph.op(view), layout); });
}

bool IsMatrix(const NormalLayout& layout, DType dtype) {
  if (layout.dims.size() < 2 || layout.dims.back().symbolic) return false;
  if (layout.strides.back() != Stride{1, 0} && !IsOne(layout.dims.back())) return false;
  const int64_t length = layout.dims.back().value;
  Stride expected{-1, 0};
  int64_t row = length;  // where there is one row
  for (size_t i = layout.dims.size() - 1; i-- > 0;) {
    if (layout.dims[i].symbolic && i > 0) return false;
    if (IsOne(layout.dims[i])) continue;
    if (layout.strides[i].m_power != 0) return false;
    if (expected.value < 0) {
      row = layout.strides[i].value;
    } else if (layout.strides[i] != expected) {
      return false;
    }
    expected = Times(layout.strides[i], layout.dims[i]);
  }
  return row >= length && row % VectorOf(dtype) == 0;
}

bool StartsAtVector(const NormalLayout& layout, DType dtype) {
  return layout.offset * SizeOf(dtype) % kVectorBytes == 0;
}

int64_t VectorOf(DType dtype) { return kVectorBytes / SizeOf(dtype); }

}  // namespace sinter
