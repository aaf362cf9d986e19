// Checks of tensor types, strides and scalars.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

constexpr int64_t kMaxStride = kMaxElements;

absl::Status CheckStride(size_t axis, Stride stride) {
  if (stride.value < 0 || stride.value > kMaxStride) {
    return InvalidField(absl::StrCat("stride ", axis), stride.value,
                        absl::StrCat("in [0, ", BoundText(kMaxStride), "]"));
  }
  if (stride.m_power < 0 || stride.m_power >= kMaxRank) {
    return InvalidField(absl::StrCat("power of M in stride ", axis), stride.m_power,
                        absl::StrCat("in [0, ", kMaxRank - 1, "]"));
  }
  return absl::OkStatus();
}

// Sufficient for every M >= 1: taken from the smallest stride up, each covers the axis below it.
absl::Status CheckNoOverlap(absl::Span<const Dim> dims, const std::vector<Stride>& strides) {
  std::vector<size_t> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != Dim::Constant(1)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return std::make_pair(strides[i].m_power, strides[i].value) <
           std::make_pair(strides[j].m_power, strides[j].value);
  });
  Stride need{1, 0};
  for (size_t axis : order) {
    if (strides[axis].m_power < need.m_power || strides[axis].value < need.value) {
      return Invalid("stride ", axis, " of ", ToString(strides), " for dims ", ToString(dims),
                     " makes elements overlap");
    }
    need = strides[axis];
    if (dims[axis].symbolic) {
      ++need.m_power;
    } else if (need.value > kMaxStride / dims[axis].value) {
      need.value = kMaxStride + 1;  // no stride reaches this far
    } else {
      need.value *= dims[axis].value;
    }
  }
  return absl::OkStatus();
}

// By way of a float that is odd where it is not `value`, and so no tie of a narrower format: what
// is rounded to nearest twice may be the farther neighbour.
double RoundOnce(double value, DType dtype) {
  float near = static_cast<float>(value);
  if (dtype == DType::kF32 || near == value) return RoundToFloatType(near, dtype);
  uint32_t bits;
  std::memcpy(&bits, &near, sizeof(bits));
  const float beyond =
      near < value ? std::numeric_limits<float>::max() : std::numeric_limits<float>::lowest();
  if (bits % 2 == 0) near = std::nextafter(near, beyond);
  return RoundToFloatType(near, dtype);
}

}  // namespace

absl::Status CheckType(const TensorType& type) {
  if (!IsValid(type.dtype)) {
    return InvalidField("dtype", static_cast<int>(type.dtype), DTypeNames());
  }
  if (type.rank() > kMaxRank) {
    return InvalidField("rank", type.rank(), absl::StrCat("at most ", kMaxRank));
  }
  int64_t count = 1;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i].symbolic) continue;
    const int64_t extent = type.dims[i].value;
    if (extent < 1 || extent > kMaxExtent) {
      return InvalidField(absl::StrCat("dimension ", i), extent,
                          absl::StrCat("in [1, ", BoundText(kMaxExtent), "] or M"));
    }
    if (count > kMaxElements / extent) {
      return Invalid("elements of ", ToString(absl::MakeConstSpan(type.dims)), " are more than ",
                     BoundText(kMaxElements));
    }
    count *= extent;
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(int axis, int rank) {
  if (axis >= 0 && axis < rank) return absl::OkStatus();
  if (rank == 0) return Invalid("axis is ", axis, ", a tensor of rank 0 has none");
  return InvalidField("axis", axis, absl::StrCat("in [0, ", rank - 1, "]"));
}

absl::StatusOr<std::vector<Stride>> ResolveStrides(absl::Span<const Dim> dims,
                                                   const std::vector<Stride>& strides,
                                                   StrideUse use) {
  std::vector<Stride> result = ContiguousStrides(dims);
  if (strides.empty()) return result;
  if (strides.size() != dims.size()) {
    return Invalid("strides are ", strides.size(), ", rank is ", dims.size());
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    SINTER_RETURN_IF_ERROR(CheckStride(i, strides[i]));
    if (dims[i] == Dim::Constant(1)) continue;
    result[i] = strides[i].value == 0 ? Stride{0, 0} : strides[i];
  }
  if (use == StrideUse::kOutput) SINTER_RETURN_IF_ERROR(CheckNoOverlap(dims, result));
  return result;
}

absl::StatusOr<double> RoundScalar(double value, DType dtype) {
  if (!IsValid(dtype)) return CheckType({dtype, {}});
  if (std::isnan(value)) return InvalidField("value", "nan", "a number");
  if (dtype == DType::kPred) {
    if (value != 0 && value != 1) return InvalidField("value", value, "0 or 1 for pred");
    return value == 0 ? 0.0 : 1.0;
  }
  if (dtype == DType::kS32) {
    if (value != std::floor(value) || std::fabs(value) > 2147483648.0 || value == 2147483648.0) {
      return InvalidField("value", value, "an integer in [-2^31, 2^31 - 1] for s32");
    }
    return value + 0.0;
  }
  if (dtype == DType::kS8) {
    if (value != std::floor(value) || value < -128 || value > 127) {
      return InvalidField("value", value, "an integer in [-128, 127] for s8");
    }
    return value + 0.0;
  }
  const double size = std::fabs(value);
  const bool fits =
      size <= LargestOf(dtype) && (std::isinf(size) || size <= std::numeric_limits<float>::max());
  const double rounded = fits ? RoundOnce(value, dtype) : value;
  if (!fits || std::isinf(rounded) != std::isinf(value)) {
    return Invalid("value is ", value, ", too large for ", NameOf(dtype));
  }
  return rounded;
}

// Result types of the ops that only move elements.

namespace {

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
  return InvalidField("dtype of ids", NameOf(ids.dtype), "s32 or s64", ": cast it to s32");
}

absl::Status CheckSliceAxis(size_t axis, Dim extent, int64_t start, Dim limit, int64_t step) {
  if (step < 1 || step > kMaxExtent) {
    return InvalidField(absl::StrCat("step ", axis), step,
                        absl::StrCat("in [1, ", BoundText(kMaxExtent), "]"));
  }
  if (extent.symbolic) {
    if (start == 0 && limit.symbolic && step == 1) return absl::OkStatus();
    return Invalid("axis ", axis, " is M and must be taken whole: start 0, limit M, step 1");
  }
  if (limit.symbolic)
    return InvalidField(absl::StrCat("limit ", axis), "M",
                        absl::StrCat("in [1, ", extent.value, "]"));
  if (limit.value < 1 || limit.value > extent.value) {
    return InvalidField(absl::StrCat("limit ", axis), limit.value,
                        absl::StrCat("in [1, ", extent.value, "]"));
  }
  if (start < 0 || start >= limit.value) {
    return InvalidField(absl::StrCat("start ", axis), start,
                        absl::StrCat("in [0, ", limit.value - 1, "]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorType> InferBroadcast(const TensorType& a, const std::vector<Dim>& dims) {
  TensorType result{a.dtype, dims};
  SINTER_RETURN_IF_ERROR(CheckType(result));
  if (result.rank() < a.rank()) {
    return InvalidField("rank of the result", result.rank(),
                        absl::StrCat("at least that of a, ", a.rank()));
  }
  const int offset = result.rank() - a.rank();
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dims[i] == dims[i + offset] || a.dims[i] == Dim::Constant(1)) continue;
    return InvalidField(absl::StrCat("dimension ", i, " of a"), ToString(a.dims[i]),
                        absl::StrCat("1 or ", ToString(dims[i + offset]), " for dims ",
                                     ToString(absl::MakeConstSpan(dims))));
  }
  return result;
}

absl::StatusOr<TensorType> InferTranspose(const TensorType& a,
                                          const std::vector<int32_t>& permutation) {
  if (static_cast<int>(permutation.size()) != a.rank()) {
    return Invalid("permutation has ", permutation.size(), " axes, rank of a is ", a.rank());
  }
  TensorType result{a.dtype, {}};
  std::vector<bool> seen(permutation.size(), false);
  for (int32_t axis : permutation) {
    SINTER_RETURN_IF_ERROR(CheckAxis(axis, a.rank()));
    if (seen[axis]) return Invalid("axis ", axis, " is given twice");
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
    return Invalid("elements of a are ", Name(from), ", of the result ", Name(to));
  }
  return result;
}

absl::StatusOr<TensorType> InferSlice(const TensorType& a, const std::vector<int64_t>& starts,
                                      const std::vector<Dim>& limits,
                                      const std::vector<int64_t>& steps) {
  const size_t rank = a.dims.size();
  if (starts.size() != rank) return Invalid("starts are ", starts.size(), ", rank of a is ", rank);
  if (limits.size() != rank) return Invalid("limits are ", limits.size(), ", rank of a is ", rank);
  if (steps.size() != rank) return Invalid("steps are ", steps.size(), ", rank of a is ", rank);
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
      return Invalid("operand ", i, " is ", ToString(operands[i]), ", operand 0 is ",
                     ToString(operands[0]), ": must be equal except along axis ", axis);
    }
    if (operands[i].dims[axis].symbolic) {
      return InvalidField(absl::StrCat("axis ", axis, " of operand ", i), "M", "constant");
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
  if (last < 0) return InvalidField("rank of x", "0", "at least 1");
  if (axis != 0 && axis != last) {
    return InvalidField("axis", axis,
                        absl::StrCat("0, for rows of x, or ", last, ", its last axis"),
                        ": transpose x for another one");
  }
  TensorType result{x.dtype, ids.dims};
  if (axis == 0) {
    if (ids.rank() + last > kMaxRank) {
      return InvalidField("rank of ids", ids.rank(), absl::StrCat("at most ", kMaxRank - last),
                          ": the result has as many axes and ", last, " of x");
    }
    result.dims.insert(result.dims.end(), x.dims.begin() + 1, x.dims.end());
  } else {
    if (x.dims[axis].symbolic) {
      return InvalidField(absl::StrCat("axis ", axis, " of x"), "M", "constant",
                          ": only rows of M are gathered");
    }
    TensorType expected = x;
    if (ids.rank() == x.rank()) expected.dims[axis] = ids.dims[axis];
    if (ids.dims != expected.dims) {
      return Invalid("dims of ids are ", ToString(absl::MakeConstSpan(ids.dims)), ", of x ",
                     ToString(absl::MakeConstSpan(x.dims)), ": must be equal except along axis ",
                     axis);
    }
  }
  SINTER_RETURN_IF_ERROR(CheckType(result));
  return result;
}

absl::StatusOr<TensorType> InferScatter(const TensorType& x, const TensorType& ids,
                                        const TensorType& rows) {
  SINTER_RETURN_IF_ERROR(CheckIdsType(ids));
  if (x.rank() == 0) return InvalidField("rank of x", "0", "at least 1");
  if (rows.dtype != x.dtype) {
    return InvalidField("dtype of rows", NameOf(rows.dtype), absl::StrCat("x's, ", NameOf(x.dtype)),
                        ": cast them");
  }
  std::vector<Dim> dims = ids.dims;
  dims.insert(dims.end(), x.dims.begin() + 1, x.dims.end());
  if (rows.dims != dims) {
    return InvalidFields("dims of rows", ToString(absl::MakeConstSpan(rows.dims)),
                         ToString(absl::MakeConstSpan(dims)),
                         ": the dims of ids, then x's after its rows");
  }
  return x;
}

}  // namespace sinter
