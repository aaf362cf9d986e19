#include <algorithm>
#include <utility>

#include "src/attention/problem.h"
#include "src/chain/linear_finder.h"

namespace sinter {
namespace {

NormalLayout InMemory(const Chain& chain, ValueId value) {
  return {chain.op(value).type.dims, StridesInMemory(chain, value), 0};
}

// Takes `layout` through the views of `path`, last one first. False where strides cannot say one.
bool Through(const Chain& chain, const std::vector<ValueId>& path, NormalLayout* layout) {
  return std::all_of(path.rbegin(), path.rend(), [&](ValueId view) {
    const Op& op = chain.op(view);
    if (op.kind == OpKind::kCast) return true;
    if (op.kind != OpKind::kBroadcast) return ViewLayout(op, layout);
    SpreadTo(op.type.dims, layout);
    return true;
  });
}

}  // namespace

bool Widens(const Chain& chain, const Op& op) {
  return op.kind == OpKind::kCast && op.type.dtype == DType::kF32 &&
         IsFloat(chain.op(op.operands[0]).type.dtype);
}

LaidOut LayoutOf(const Chain& chain, ValueId value) {
  LaidOut best{value, InMemory(chain, value)};
  std::vector<ValueId> path;
  for (ValueId at = value; path.size() < kMostWalk;) {
    const Op& op = chain.op(at);
    if (!IsView(op) && !Widens(chain, op)) break;
    path.push_back(at);
    at = op.operands[0];
    if (chain.op(at).kind == OpKind::kScalar) break;
    NormalLayout layout = InMemory(chain, at);
    if (!Through(chain, path, &layout)) break;
    best = {at, std::move(layout)};
  }
  return best;
}

bool ResultLayout(const Chain& chain, ValueId value, NormalLayout* layout) {
  *layout = InMemory(chain, value);
  int outputs = 0;
  for (const ChainOutput& output : chain.outputs()) {
    if (output.value != value) continue;
    layout->strides = output.strides;
    if (output.alias_input >= 0 || ++outputs > 1) return false;
  }
  return true;
}

bool Unview(const Op& view, const std::vector<Dim>& dims, NormalLayout* layout) {
  if (view.kind == OpKind::kCast) return true;
  if (view.kind == OpKind::kReshape) return ReshapeLayout(dims, layout);
  if (view.kind != OpKind::kTranspose) return false;
  NormalLayout turned{dims, layout->strides, layout->offset};
  for (size_t i = 0; i < view.axes.size(); ++i) {
    turned.strides[static_cast<size_t>(view.axes[i])] = layout->strides[i];
  }
  *layout = std::move(turned);
  return true;
}

void SpreadTo(const std::vector<Dim>& dims, NormalLayout* layout) {
  const size_t missing = dims.size() - layout->dims.size();
  std::vector<Stride> strides(dims.size(), Stride{0, 0});
  for (size_t i = missing; i < dims.size(); ++i) {
    if (layout->dims[i - missing] == dims[i]) strides[i] = layout->strides[i - missing];
  }
  layout->dims = dims;
  layout->strides = std::move(strides);
}

bool ToBatched(const NormalLayout& layout, bool turned, const std::vector<Dim>& batches,
               BatchedMatrix* matrix) {
  if (layout.dims.size() != batches.size() + 2) {
    // An operand of fewer axes is the same for all batches before.
    if (layout.dims.size() > batches.size() + 2 || layout.dims.size() < 2) return false;
    NormalLayout spread = layout;
    std::vector<Dim> dims = batches;
    dims.insert(dims.end(), layout.dims.end() - 2, layout.dims.end());
    SpreadTo(dims, &spread);
    return ToBatched(spread, turned, batches, matrix);
  }
  const size_t last = layout.dims.size() - 1;
  for (const Stride& stride : layout.strides) {
    if (stride.m_power != 0) return false;
  }
  if (layout.dims[last].symbolic || layout.dims[last - 1].symbolic) return false;
  matrix->row = layout.strides[last - 1].value;
  matrix->column = layout.strides[last].value;
  if (turned) std::swap(matrix->row, matrix->column);
  matrix->digits.clear();
  int64_t inner = 1;
  for (size_t i = batches.size(); i-- > 0;) {
    if (batches[i].symbolic && i > 0) return false;
    const bool one = !batches[i].symbolic && batches[i].value == 1;
    const bool spread = !(layout.dims[i] == batches[i]);
    const int64_t stride = one || spread ? 0 : layout.strides[i].value;
    if (spread && !(layout.dims[i] == Dim::Constant(1))) return false;
    const int64_t extent = batches[i].symbolic ? 0 : batches[i].value;
    if (stride != 0) {
      BatchDigit* before = matrix->digits.empty() ? nullptr : &matrix->digits.back();
      const bool joins = before != nullptr && extent != 0 &&
                         before->inner * before->extent == inner &&
                         before->stride * before->extent == stride;
      if (joins) {
        before->extent *= extent;
      } else {
        matrix->digits.push_back({inner, extent, stride});
      }
    }
    if (extent != 0) inner *= extent;
  }
  return true;
}

}  // namespace sinter
