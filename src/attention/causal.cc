#include <cmath>

#include "src/attention/attention.h"

namespace sinter {
namespace {

constexpr double kMostOffset = 1 << 29;  // of an index: its sums never wrap

// An axis counted from the last one, along which a value is the index plus an offset.
struct Index {
  int axis = -1;  // -1: there is none
  int64_t offset = 0;
};

// `dims`: the dims of the values that the index is read with, of which it has all of the axis.
Index IndexAt(const Chain& chain, ValueId id, const std::vector<Dim>& dims) {
  int64_t offset = 0;
  std::vector<ValueId> views;
  for (int i = 0; i < kMostWalk; ++i) {
    const Op& at = chain.op(id);
    if (at.kind == OpKind::kIota) break;
    double number = 0;
    const bool sum = IsBinary(at, BinaryKind::kAdd);
    if (at.kind == OpKind::kBroadcast || at.kind == OpKind::kReshape) {
      views.push_back(id);
    } else if ((sum || IsBinary(at, BinaryKind::kSub)) &&
               NumberAt(chain, at.operands[1], &number)) {
      const bool whole = std::abs(number) <= kMostOffset && number == std::trunc(number);
      if (!whole || at.type.dtype != DType::kS32) return {};
      offset += static_cast<int64_t>(sum ? number : -number);
      if (std::abs(offset) > static_cast<int64_t>(kMostOffset)) return {};
    } else if (at.kind != OpKind::kCast || at.type.dtype != DType::kS32) {
      return {};
    }
    id = at.operands[0];
  }
  const Op& iota = chain.op(id);
  if (iota.kind != OpKind::kIota || iota.type.dtype != DType::kS32) return {};
  const Dim extent = iota.type.dims[static_cast<size_t>(iota.axis)];
  const auto has_all = [&](const std::vector<Dim>& of, int axis) {
    const auto from_last = static_cast<size_t>(axis);
    return from_last < of.size() && of[of.size() - 1 - from_last] == extent;
  };
  int axis = iota.type.rank() - 1 - iota.axis;
  const std::vector<Dim>* below = &iota.type.dims;
  for (auto view = views.rbegin(); view != views.rend(); ++view) {
    const TensorType& type = chain.op(*view).type;
    if (chain.op(*view).kind == OpKind::kReshape) {
      if (!has_all(*below, axis)) return {};
      // An axis of its extent among axes of one element.
      axis = -1;
      for (int d = 0; d < type.rank(); ++d) {
        const Dim dim = type.dims[static_cast<size_t>(d)];
        if (dim == Dim::Constant(1)) continue;
        if (!(dim == extent) || axis >= 0) return {};
        axis = type.rank() - 1 - d;
      }
      if (axis < 0) return {};
    }
    below = &type.dims;
  }
  // An index of one element is 0 wherever it is spread to.
  return has_all(dims, axis) ? Index{axis, offset} : Index{};
}

}  // namespace

bool NumberAt(const Chain& chain, ValueId id, double* number) {
  for (int i = 0; i < kMostWalk; ++i) {
    const Op& at = chain.op(id);
    if (at.kind == OpKind::kScalar) {
      *number = at.scalar;
      return true;
    }
    const bool through = at.kind == OpKind::kBroadcast || at.kind == OpKind::kReshape ||
                         (at.kind == OpKind::kCast && at.type.dtype == DType::kF32);
    if (!through) return false;
    id = at.operands[0];
  }
  return false;
}

bool IsCausal(const Chain& chain, ValueId condition, const std::vector<Dim>& dims, bool keeps,
              int64_t* diagonal) {
  while (chain.op(condition).kind == OpKind::kBroadcast)
    condition = chain.op(condition).operands[0];
  const Op& at = chain.op(condition);
  if (at.kind != OpKind::kCompare || at.type.rank() < 2) return false;
  const Index a = IndexAt(chain, at.operands[0], dims), b = IndexAt(chain, at.operands[1], dims);
  const bool column_first = a.axis == 0 && b.axis == 1;
  if (!column_first && !(a.axis == 1 && b.axis == 0)) return false;
  // The row's offset minus the column's, and what compares the column with the row.
  const int64_t shift = column_first ? b.offset - a.offset : a.offset - b.offset;
  const auto is = [&](CompareKind kind, CompareKind mirrored) {
    return at.compare == (column_first ? kind : mirrored);
  };
  if (keeps ? is(CompareKind::kLe, CompareKind::kGe) : is(CompareKind::kGt, CompareKind::kLt)) {
    *diagonal = shift;
  } else if (keeps ? is(CompareKind::kLt, CompareKind::kGt)
                   : is(CompareKind::kGe, CompareKind::kLe)) {
    *diagonal = shift - 1;
  } else {
    return false;
  }
  return std::abs(*diagonal) <= kMaxAttentionRows;
}

}  // namespace sinter
