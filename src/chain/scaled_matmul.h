// ScaleGrain: which elements of an operand of scaled_matmul share one value of its scale.
//
// y[i, j] = sum over k of a[i, k] * sa(i, k) * w[j, k] * sw(j, k), in exact arithmetic. Scales are
// f32 and dequantise; their extents say what shares a value, their strides are those of the value:
//   a [m, k]: [] or [1, 1] (the tensor), [m, 1] (a row), [m, k / 128] (128 of a row)
//   w [n, k]: [] or [1, 1], [n, 1] (a row: an output channel), [ceil(n / 128), k / 128] (a block of
//             128 x 128, the last one shorter), [n, k / 128]; also [1, k / 128] of both
// Where Accumulate is kFast, scales are of tensors and rows: those of 128 of k need promoted sums.
#ifndef SINTER_SRC_CHAIN_SCALED_MATMUL_H_
#define SINTER_SRC_CHAIN_SCALED_MATMUL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/chain/tensor_type.h"

namespace sinter {

constexpr int64_t kScaleBlock = 128;     // elements of K, and rows of weights, that share a value
constexpr int64_t kMostS8Sums = 131071;  // of products of two s8, exact in s32

struct ScaleGrain {
  int64_t rows = 0;  // that share a value: 1, kScaleBlock; 0: all
  int64_t k = 0;     // kScaleBlock; 0: all
};

// `scale` of an operand of type [rows, k]; blocks of rows only for `weights`. The error names
// `name` and what its dims may be.
absl::StatusOr<ScaleGrain> GrainOf(absl::string_view name, const TensorType& operand,
                                   const TensorType& scale, bool weights);

// The same of an operand of scaled_grouped_matmul: a [m, k] or [m, t, k], or w [experts, n, k],
// whose scale has its rank or is one value. Of w, experts have scales of their own: [experts, 1,
// 1], [experts, n, 1] or [experts, ceil(n / 128), k / 128].
absl::StatusOr<ScaleGrain> GroupedGrainOf(absl::string_view name, const TensorType& operand,
                                          const TensorType& scale, bool weights);

// Whether sums of k products of `dtype` are exact: of s8, k is at most kMostS8Sums.
absl::Status CheckSumsOf(DType dtype, Dim k);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_SCALED_MATMUL_H_
