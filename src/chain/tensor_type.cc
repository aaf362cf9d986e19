#include "src/chain/tensor_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Wide = __int128;
constexpr Wide kMaxCount = (Wide{1} << 62) - 1;

absl::Status CheckM(int64_t m) {
  if (m >= 0 && m <= kMaxExtent) return absl::OkStatus();
  return OutOfRange("m is ", m, ", must be in [0, ", BoundText(kMaxExtent), "]");
}

std::string ToString(Stride stride) {
  if (stride.m_power == 0 || stride.value == 0) return absl::StrCat(stride.value);
  std::string power = stride.m_power == 1 ? "M" : absl::StrCat("M^", stride.m_power);
  return stride.value == 1 ? power : absl::StrCat(stride.value, "*", power);
}

}  // namespace

int64_t Stride::At(int64_t m) const {
  int64_t result = value;
  for (int32_t i = 0; i < m_power; ++i) result *= m;
  return result;
}

std::string ToString(absl::Span<const Dim> dims) {
  return absl::StrCat(
      "[",
      absl::StrJoin(dims, ",", [](std::string* out, Dim dim) { *out += sinter::ToString(dim); }),
      "]");
}

std::string ToString(absl::Span<const Stride> strides) {
  return absl::StrCat(
      "[", absl::StrJoin(strides, ",", [](std::string* out, Stride s) { *out += ToString(s); }),
      "]");
}

std::string ToString(const TensorType& type) {
  return absl::StrCat(NameOf(type.dtype), ToString(absl::MakeConstSpan(type.dims)));
}

std::vector<Stride> ContiguousStrides(absl::Span<const Dim> dims) {
  std::vector<Stride> strides(dims.size());
  Stride next{1, 0};
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = next;
    if (dims[i].symbolic) {
      ++next.m_power;
    } else {
      next.value *= dims[i].value;
    }
  }
  return strides;
}

int SymbolicAxis(absl::Span<const Dim> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].symbolic) return static_cast<int>(i);
  }
  return -1;
}

int64_t ElementsPerM(absl::Span<const Dim> dims) {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.symbolic ? 1 : dim.value;
  return count;
}

absl::StatusOr<int64_t> ElementCount(absl::Span<const Dim> dims, int64_t m) {
  if (absl::Status status = CheckM(m); !status.ok()) return status;
  Wide count = 1;
  for (Dim dim : dims) {
    if (dim.At(m) == 0) return 0;
  }
  for (Dim dim : dims) {
    count *= dim.At(m);
    if (count > kMaxCount) {
      return OutOfRange("a tensor ", ToString(dims), " at m = ", m, " has 2^62 elements or more");
    }
  }
  return static_cast<int64_t>(count);
}

absl::StatusOr<int64_t> BufferBytes(const TensorType& type, absl::Span<const Stride> strides,
                                    int64_t m) {
  absl::StatusOr<int64_t> count = ElementCount(type.dims, m);
  if (!count.ok() || *count == 0) return count;
  Wide last = 0;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    Wide step = strides[i].value;
    for (int32_t p = 0; p < strides[i].m_power && step <= kMaxCount; ++p) step *= m;
    if (step > kMaxCount) step = kMaxCount;
    last += step * (type.dims[i].At(m) - 1);
    if ((last + 1) * SizeOf(type.dtype) > kMaxCount) {
      return OutOfRange("a tensor ", ToString(type), " with strides ", ToString(strides),
                        " at m = ", m, " spans 2^62 bytes or more");
    }
  }
  return static_cast<int64_t>((last + 1) * SizeOf(type.dtype));
}

}  // namespace sinter
