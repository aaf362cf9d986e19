// Checks of tensor types, strides and scalars.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/tensor_type.h"

namespace sinter {
namespace {

constexpr int64_t kMaxStride = kMaxElements;

template <typename... Args>
absl::Status Bad(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckStride(size_t axis, Stride stride) {
  if (stride.value < 0 || stride.value > kMaxStride) {
    return Bad("stride ", axis, " is ", stride.value, ", must be in [0, ", BoundText(kMaxStride),
               "]");
  }
  if (stride.m_power < 0 || stride.m_power >= kMaxRank) {
    return Bad("power of M in stride ", axis, " is ", stride.m_power, ", must be in [0, ",
               kMaxRank - 1, "]");
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
      return Bad("stride ", axis, " of ", ToString(strides), " for dims ", ToString(dims),
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

}  // namespace

absl::Status CheckType(const TensorType& type) {
  if (!IsValid(type.dtype)) {
    return Bad("dtype is ", static_cast<int>(type.dtype), ", must be ", DTypeNames());
  }
  if (type.rank() > kMaxRank) {
    return Bad("rank is ", type.rank(), ", must be at most ", kMaxRank);
  }
  int64_t count = 1;
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i].symbolic) continue;
    const int64_t extent = type.dims[i].value;
    if (extent < 1 || extent > kMaxExtent) {
      return Bad("dimension ", i, " is ", extent, ", must be in [1, ", BoundText(kMaxExtent),
                 "] or M");
    }
    if (count > kMaxElements / extent) {
      return Bad("elements of ", ToString(absl::MakeConstSpan(type.dims)), " are more than ",
                 BoundText(kMaxElements));
    }
    count *= extent;
  }
  return absl::OkStatus();
}

absl::Status CheckAxis(int axis, int rank) {
  if (axis >= 0 && axis < rank) return absl::OkStatus();
  if (rank == 0) return Bad("axis is ", axis, ", a tensor of rank 0 has none");
  return Bad("axis is ", axis, ", must be in [0, ", rank - 1, "]");
}

absl::StatusOr<std::vector<Stride>> ResolveStrides(absl::Span<const Dim> dims,
                                                   const std::vector<Stride>& strides,
                                                   StrideUse use) {
  std::vector<Stride> result = ContiguousStrides(dims);
  if (strides.empty()) return result;
  if (strides.size() != dims.size()) {
    return Bad("strides are ", strides.size(), ", rank is ", dims.size());
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
  if (std::isnan(value)) return Bad("value is nan, must be a number");
  if (dtype == DType::kPred) {
    if (value != 0 && value != 1) return Bad("value is ", value, ", must be 0 or 1 for pred");
    return value == 0 ? 0.0 : 1.0;
  }
  if (dtype == DType::kS32) {
    if (value != std::floor(value) || std::fabs(value) > 2147483648.0 || value == 2147483648.0) {
      return Bad("value is ", value, ", must be an integer in [-2^31, 2^31 - 1] for s32");
    }
    return value + 0.0;
  }
  if (dtype == DType::kS8) {
    if (value != std::floor(value) || value < -128 || value > 127) {
      return Bad("value is ", value, ", must be an integer in [-128, 127] for s8");
    }
    return value + 0.0;
  }
  const double size = std::fabs(value);
  const bool fits =
      size <= LargestOf(dtype) && (std::isinf(size) || size <= std::numeric_limits<float>::max());
  const double rounded = fits ? RoundToFloatType(static_cast<float>(value), dtype) : value;
  if (!fits || std::isinf(rounded) != std::isinf(value)) {
    return Bad("value is ", value, ", too large for ", NameOf(dtype));
  }
  return rounded;
}

}  // namespace sinter
