// Result types of the ops that only move elements.
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

struct Elements {
  int64_t constant = 1;
  int m_power = 0;
};

Elements Count(const std::vector<Dim>& dims) {
  Elements result;
  for (Dim dim : dims) {
    if (dim.symbolic) {
      ++result.m_power;
    } else {
      result.constant *= dim.value;
    }
  }
  return result;
}

std::string Name(const Elements& e) {
  const std::string text = ToString({Stride{e.constant, e.m_power}});
  return text.substr(1, text.size() - 2);
}

absl::Status CheckIdsType(const TensorType& ids) {
  if (ids.dtype == DType::kS32 || ids.dtype == DType::kS64) return absl::OkStatus();
  return Bad("dtype of ids is ", NameOf(ids.dtype), ", must be s32 or s64: cast it to s32");
}

absl::Status CheckSliceAxis(size_t axis, Dim extent, int64_t start, Dim limit, int64_t step) {
  if (step < 1 || step > kMaxExtent) {
    return Bad("step ", axis, " is ", step, ", must be in [1, ", BoundText(kMaxExtent), "]");
  }
  if (extent.symbolic) {
    if (start == 0 && limit.symbolic && step == 1) return absl::OkStatus();
    return Bad("axis ", axis, " is M and must be taken whole: start 0, limit M, step 1");
  }
  if (limit.symbolic) return Bad("limit ", axis, " is M, must be in [1, ", extent.value, "]");
  if (limit.value < 1 || limit.value > extent.value) {
    return Bad("limit ", axis, " is ", limit.value, ", must be in [1, ", extent.value, "]");
  }
  if (start < 0 || start >= limit.value) {
    return Bad("start ", axis, " is ", start, ", must be in [0, ", limit.value - 1, "]");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorType> InferBroadcast(const TensorType& a, const std::vector<Dim>& dims) {
  TensorType result{a.dtype, dims};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  if (result.rank() < a.rank()) {
    return Bad("rank of the result is ", result.rank(), ", must be at least that of a, ", a.rank());
  }
  const int offset = result.rank() - a.rank();
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] == dims[i + offset] || a.dims[i] == Dim::Constant(1)) continue;
    return Bad("dimension ", i, " of a is ", ToString(a.dims[i]), ", must be 1 or ",
               ToString(dims[i + offset]), " for dims ", ToString(absl::MakeConstSpan(dims)));
  }
  return result;
}

absl::StatusOr<TensorType> InferTranspose(const TensorType& a,
                                          const std::vector<int32_t>& permutation) {
  if (static_cast<int>(permutation.size()) != a.rank()) {
    return Bad("permutation has ", permutation.size(), " axes, rank of a is ", a.rank());
  }
  TensorType result{a.dtype, {}};
  std::vector<bool> seen(permutation.size(), false);
  for (int32_t axis : permutation) {
    SINTER_RETURN_IF_ERROR(CheckAxis(axis, a.rank()));
    if (seen[axis]) return Bad("axis ", axis, " is given twice");
    seen[axis] = true;
    result.dims.push_back(a.dims[axis]);
  }
  return result;
}

absl::StatusOr<TensorType> InferReshape(const TensorType& a, const std::vector<Dim>& dims) {
  TensorType result{a.dtype, dims};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  const Elements from = Count(a.dims), to = Count(dims);
  if (from.constant != to.constant || from.m_power != to.m_power) {
    return Bad("elements of a are ", Name(from), ", of the result ", Name(to));
  }
  return result;
}

absl::StatusOr<TensorType> InferSlice(const TensorType& a, const std::vector<int64_t>& starts,
                                      const std::vector<Dim>& limits,
                                      const std::vector<int64_t>& steps) {
  const size_t rank = a.dims.size();
  if (starts.size() != rank) return Bad("starts are ", starts.size(), ", rank of a is ", rank);
  if (limits.size() != rank) return Bad("limits are ", limits.size(), ", rank of a is ", rank);
  if (steps.size() != rank) return Bad("steps are ", steps.size(), ", rank of a is ", rank);
  TensorType result{a.dtype, a.dims};
  for (size_t i = 0; i < rank; ++i) {
    SINTER_RETURN_IF_ERROR(CheckSliceAxis(i, a.dims[i], starts[i], limits[i], steps[i]));
    if (a.dims[i].symbolic) continue;
    result.dims[i] = Dim::Constant((limits[i].value - starts[i] - 1) / steps[i] + 1);
  }
  return result;
}

absl::StatusOr<TensorType> InferConcat(absl::Span<const TensorType> operands, int axis) {
  TensorType result = operands[0];
  SINTER_RETURN_IF_ERROR(CheckAxis(axis, result.rank()));
  int64_t extent = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    TensorType expected = operands[0];
    if (operands[i].rank() == expected.rank()) expected.dims[axis] = operands[i].dims[axis];
    if (operands[i] != expected) {
      return Bad("operand ", i, " is ", ToString(operands[i]), ", operand 0 is ",
                 ToString(operands[0]), ": must be equal but for axis ", axis);
    }
    if (operands[i].dims[axis].symbolic) {
      return Bad("axis ", axis, " of operand ", i, " is M, must be constant");
    }
    extent += operands[i].dims[axis].value;
  }
  result.dims[axis] = Dim::Constant(extent);
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferGather(const TensorType& x, const TensorType& ids, int axis) {
  SINTER_RETURN_IF_ERROR(CheckIdsType(ids));
  const int last = x.rank() - 1;
  if (last < 0) return Bad("rank of x is 0, must be at least 1");
  if (axis != 0 && axis != last) {
    return Bad("axis is ", axis, ", must be 0, for rows of x, or ", last,
               ", its last axis: transpose x for another one");
  }
  TensorType result{x.dtype, ids.dims};
  if (axis == 0) {
    if (ids.rank() + last > kMaxRank) {
      return Bad("rank of ids is ", ids.rank(), ", must be at most ", kMaxRank - last,
                 ": the result has as many axes and ", last, " of x");
    }
    result.dims.insert(result.dims.end(), x.dims.begin() + 1, x.dims.end());
  } else {
    if (x.dims[axis].symbolic) {
      return Bad("axis ", axis, " of x is M, must be constant: only rows of M are gathered");
    }
    TensorType expected = x;
    if (ids.rank() == x.rank()) expected.dims[axis] = ids.dims[axis];
    if (ids.dims != expected.dims) {
      return Bad("dims of ids are ", ToString(absl::MakeConstSpan(ids.dims)), ", of x ",
                 ToString(absl::MakeConstSpan(x.dims)), ": must be equal but for axis ", axis);
    }
  }
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferScatter(const TensorType& x, const TensorType& ids,
                                        const TensorType& rows) {
  SINTER_RETURN_IF_ERROR(CheckIdsType(ids));
  if (x.rank() == 0) return Bad("rank of x is 0, must be at least 1");
  if (rows.dtype != x.dtype) {
    return Bad("dtype of rows is ", NameOf(rows.dtype), ", must be x's, ", NameOf(x.dtype),
               ": cast them");
  }
  std::vector<Dim> dims = ids.dims;
  dims.insert(dims.end(), x.dims.begin() + 1, x.dims.end());
  if (rows.dims != dims) {
    return Bad("dims of rows are ", ToString(absl::MakeConstSpan(rows.dims)), ", must be ",
               ToString(absl::MakeConstSpan(dims)), ": those of ids, then x's behind its rows");
  }
  return x;
}

}  // namespace sinter
