#include <algorithm>
#include <cmath>
#include <limits>

#include "src/attention/attention.h"

namespace sinter {
namespace {

constexpr double kMostOffset = 1 << 29;  // of an index: its sums never wrap
constexpr double kHiddenBelow = -1e30;   // no score that nothing is added to is as low
constexpr double kMostScale = 1e6;       // of such a score
constexpr double kNoShare = -std::numeric_limits<double>::infinity();  // of a score

}  // namespace

AxisIndex IndexAt(const Chain& chain, ValueId id, const std::vector<Dim>& dims) {
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
  if (iota.kind != OpKind::kIota ||
      (iota.type.dtype != DType::kS32 && iota.type.dtype != DType::kF32))
    return {};
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
  return has_all(dims, axis) ? AxisIndex{axis, offset} : AxisIndex{};
}

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

namespace {

// Whether those scores of `dims` stay whose key is at most row + diagonal, where `condition` keeps
// (or, without `keeps`, hides) those for which it holds.
bool IsCausal(const Chain& chain, ValueId condition, const std::vector<Dim>& dims, bool keeps,
              int64_t* diagonal) {
  while (chain.op(condition).kind == OpKind::kBroadcast)
    condition = chain.op(condition).operands[0];
  const Op& at = chain.op(condition);
  if (at.kind != OpKind::kCompare || at.type.rank() < 2) return false;
  const AxisIndex a = IndexAt(chain, at.operands[0], dims),
                  b = IndexAt(chain, at.operands[1], dims);
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

class CausalFinder {
 public:
  CausalFinder(const Chain& chain, const Users& users, ValueId scores,
               const std::vector<ValueId>& between)
      : chain_(chain), users_(users), scores_(scores), between_(between) {}

  CausalMask Find() {
    for (auto id = between_.rbegin(); id != between_.rend() && mask_.select < 0; ++id) {
      if (op(*id).kind != OpKind::kSelect || IsBetween(op(*id).operands[0])) continue;
      for (const bool keeps : {true, false}) Take(*id, keeps);
    }
    return mask_;
  }

 private:
  const Op& op(ValueId id) const { return chain_.op(id); }
  bool IsBetween(ValueId id) const {
    return std::binary_search(between_.begin(), between_.end(), id);
  }

  void Take(ValueId select, bool keeps) {
    const std::vector<ValueId>& of = op(select).operands;
    const ValueId score = of[keeps ? 1 : 2];
    double number = 0;
    if (!IsBetween(score) || !NumberAt(chain_, of[keeps ? 2 : 1], &number)) return;
    int64_t diagonal = 0;
    if (!HidesBehind(select, number) ||
        !IsCausal(chain_, of[0], op(select).type.dims, keeps, &diagonal)) {
      return;
    }
    const bool finite = std::isfinite(static_cast<float>(number));
    if (finite && (diagonal < 0 || !IsFarAbove(score))) return;
    mask_ = {select, of[0], diagonal};
  }

  // Whether a score of `number` has no share after the ops that follow `id`: then the kernel may
  // hide it last.
  bool HidesBehind(ValueId id, double number) const {
    auto x = static_cast<float>(number);
    while (id != between_.back()) {
      ValueId next = -1;
      for (const ValueId user : users_.Of(id)) {
        if (!IsBetween(user)) continue;
        if (next >= 0) return false;
        next = user;
      }
      const Op& at = op(next);
      float scale = 1;
      if (ScaleOf(at, &scale)) {
        if (!(scale > 0) || !std::isfinite(scale)) return false;
        x *= scale;
      } else if (at.kind == OpKind::kCast) {
        if (std::isfinite(x) && at.type.dtype == DType::kF16) return false;
      } else if (IsBinary(at, BinaryKind::kAdd)) {
        if (std::isfinite(x) || (IsBetween(at.operands[0]) && IsBetween(at.operands[1]))) {
          return false;
        }
      } else if (at.kind == OpKind::kSelect) {
        double hidden = 0;
        const bool first = at.operands[1] == id;
        if (std::isfinite(x) || IsBetween(at.operands[0]) ||
            !NumberAt(chain_, at.operands[first ? 2 : 1], &hidden) || hidden != kNoShare) {
          return false;
        }
      } else if (at.kind != OpKind::kReshape) {
        return false;
      }
      id = next;
    }
    return x <= kHiddenBelow;
  }

  // Whether scores are a number times those before.
  bool ScaleOf(const Op& at, float* scale) const {
    double number = 0;
    if (IsBinary(at, BinaryKind::kMul)) {
      if (!NumberAt(chain_, at.operands[1], &number) && !NumberAt(chain_, at.operands[0], &number))
        return false;
      *scale = static_cast<float>(number);
      return true;
    }
    if (!IsBinary(at, BinaryKind::kDiv) || !NumberAt(chain_, at.operands[1], &number)) return false;
    *scale = static_cast<float>(1 / number);
    return true;
  }

  // Whether such scores of products are far above kHiddenBelow.
  bool IsFarAbove(ValueId id) const {
    const Op& at = op(id);
    float scale = 1;
    if (id == scores_ || IsUnary(at, UnaryKind::kTanh)) return true;
    if (ScaleOf(at, &scale)) {
      const ValueId score = at.operands[IsBetween(at.operands[0]) ? 0 : 1];
      return std::abs(scale) <= kMostScale && IsFarAbove(score);
    }
    if (at.kind == OpKind::kCast) return at.type.dtype != DType::kF16 && IsFarAbove(at.operands[0]);
    return at.kind == OpKind::kReshape && IsFarAbove(at.operands[0]);
  }

  const Chain& chain_;
  const Users& users_;
  const ValueId scores_;  // the product of q and k
  const std::vector<ValueId>& between_;
  CausalMask mask_;
};

}  // namespace

CausalMask FindCausalMask(const Chain& chain, const Users& users, ValueId scores,
                          const std::vector<ValueId>& between) {
  return CausalFinder(chain, users, scores, between).Find();
}

}  // namespace sinter
