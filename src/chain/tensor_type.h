// TensorType, Stride: what a tensor of a chain is before M is known.
#ifndef SINTER_SRC_CHAIN_TENSOR_TYPE_H_
#define SINTER_SRC_CHAIN_TENSOR_TYPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"

namespace sinter {

constexpr int kMaxRank = 6;
constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;  // of one dimension, M included
constexpr int64_t kMaxElements = int64_t{1} << 40;      // of one tensor, M not counted

// Distance between neighbours along a dimension, in elements: value * M^m_power.
struct Stride {
  int64_t value = 0;
  int32_t m_power = 0;
  int64_t At(int64_t m) const;
  SINTER_FIELDS(Stride, value, m_power);
};

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Dim> dims;  // outermost first; rank 0 is a scalar
  int rank() const { return static_cast<int>(dims.size()); }
  SINTER_FIELDS(TensorType, dtype, dims);
};

std::string ToString(const TensorType& type);            // "bf16[M,4096]"
std::string ToString(absl::Span<const Dim> dims);        // "[M,4096]"
std::string ToString(absl::Span<const Stride> strides);  // "[4096,1]", "[8*M,1]", "[M^2,M,1]"

// Row-major strides without gaps.
std::vector<Stride> ContiguousStrides(absl::Span<const Dim> dims);
// Axis of the first symbolic dimension; -1 without one.
int SymbolicAxis(absl::Span<const Dim> dims);
// Elements for each of M; all where no dimension is M.
int64_t ElementsPerM(absl::Span<const Dim> dims);
// Elements at M = m. OUT_OF_RANGE when the count does not fit in 62 bits or m is not in [0,
// kMaxExtent].
absl::StatusOr<int64_t> ElementCount(absl::Span<const Dim> dims, int64_t m);
// Bytes from the first element to the end of the last; 0 for an empty tensor. OUT_OF_RANGE as
// above.
absl::StatusOr<int64_t> BufferBytes(const TensorType& type, absl::Span<const Stride> strides,
                                    int64_t m);

// "2^31 - 1", "2^40"; below 2^20 its digits.
inline std::string BoundText(int64_t bound) {
  for (int bits = 20; bits < 63; ++bits) {
    const int64_t power = int64_t{1} << bits;
    if (bound == power) return absl::StrCat("2^", bits);
    if (bound == power - 1) return absl::StrCat("2^", bits, " - 1");
  }
  return absl::StrCat(bound);
}

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_TENSOR_TYPE_H_
