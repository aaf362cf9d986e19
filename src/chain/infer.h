// Type inference: the result type of each primitive, or why its operands are refused. Pure
// functions; messages name field, value and bound, the caller adds the op.
#ifndef SINTER_SRC_CHAIN_INFER_H_
#define SINTER_SRC_CHAIN_INFER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/chain/op.h"
#include "src/chain/tensor_type.h"

namespace sinter {

// dtype known, rank <= kMaxRank, extents in [1, kMaxExtent], at most kMaxElements without M.
absl::Status CheckType(const TensorType& type);

// `axis` is one of a tensor of `rank` axes.
absl::Status CheckAxis(int axis, int rank);

// `strides` with empty filled in as contiguous and those of extent-1 axes made canonical. Inputs:
// each in [0, 2^40]; outputs additionally must not overlap for any M >= 1.
enum class StrideUse { kInput, kOutput };
absl::StatusOr<std::vector<Stride>> ResolveStrides(absl::Span<const Dim> dims,
                                                   const std::vector<Stride>& strides,
                                                   StrideUse use);

// `value` rounded to dtype.
absl::StatusOr<double> RoundScalar(double value, DType dtype);

absl::StatusOr<TensorType> InferIota(const TensorType& type, int axis);
absl::StatusOr<TensorType> InferMatmul(const TensorType& a, const TensorType& b, bool transpose_a,
                                       bool transpose_b);
// a [m, k] and w [n, k], both e4m3 or s8, each with its scale; f32 [m, n].
absl::StatusOr<TensorType> InferScaledMatmul(const TensorType& a, const TensorType& w,
                                             const TensorType& scale_a, const TensorType& scale_w,
                                             Accumulate accumulate);
// a [m, k] or [m, t, k], w [experts, n, k] with `transpose_b`, else [experts, k, n], ids [m, t];
// f32 [m, t, n].
constexpr int64_t kMostSlots = 32, kMostExperts = 1024, kGroupedAlignment = 8;
absl::StatusOr<TensorType> InferGroupedMatmul(const TensorType& a, const TensorType& w,
                                              const TensorType& ids, bool transpose_b);
// a [m, k], ends [experts]; f32 [m, n].
absl::StatusOr<TensorType> InferGroupedMatmulByEnds(const TensorType& a, const TensorType& w,
                                                    const TensorType& ends, bool transpose_b);
// The same of e4m3, each with its scale (infer.h); w is [experts, n, k].
absl::StatusOr<TensorType> InferScaledGroupedMatmul(const TensorType& a, const TensorType& w,
                                                    const TensorType& ids,
                                                    const TensorType& scale_a,
                                                    const TensorType& scale_w);
// x's type, which is floating; `ranks` in [1, kMostRanks].
absl::StatusOr<TensorType> InferAllReduce(const TensorType& x, int32_t ranks);
// x's type, which holds floats, with `ranks` times the extent of `axis`.
absl::StatusOr<TensorType> InferAllGather(const TensorType& x, int axis, int32_t ranks);
// x's type, which is floating, with the extent of `axis`, a multiple of `ranks`, divided by them.
absl::StatusOr<TensorType> InferReduceScatter(const TensorType& x, int axis, int32_t ranks);
// x [batch, height, width, channels], w as `conv` says; f32 [batch, p, q, out].
absl::StatusOr<TensorType> InferConv2d(const TensorType& x, const TensorType& w,
                                       const Conv2d& conv);
// x [batch, height, width, channels] and `fill` of rank 0; [batch, p, q, taps[0], taps[1],
// channels]. `of`: what errors say the taps are those of.
absl::StatusOr<TensorType> InferWindow(const TensorType& x, const TensorType& fill,
                                       const std::array<int64_t, 2>& taps, const Conv2d& conv,
                                       absl::string_view of = "the window");
absl::StatusOr<TensorType> InferUnary(UnaryKind kind, const TensorType& a);
absl::StatusOr<TensorType> InferBinary(BinaryKind kind, const TensorType& a, const TensorType& b);
absl::StatusOr<TensorType> InferCompare(CompareKind kind, const TensorType& a, const TensorType& b);
absl::StatusOr<TensorType> InferSelect(const TensorType& condition, const TensorType& a,
                                       const TensorType& b);
absl::StatusOr<TensorType> InferCast(const TensorType& a, DType dtype);
absl::StatusOr<TensorType> InferBroadcast(const TensorType& a, const std::vector<Dim>& dims);
absl::StatusOr<TensorType> InferTranspose(const TensorType& a,
                                          const std::vector<int32_t>& permutation);
absl::StatusOr<TensorType> InferReshape(const TensorType& a, const std::vector<Dim>& dims);
absl::StatusOr<TensorType> InferSlice(const TensorType& a, const std::vector<int64_t>& starts,
                                      const std::vector<Dim>& limits,
                                      const std::vector<int64_t>& steps);
absl::StatusOr<TensorType> InferConcat(absl::Span<const TensorType> operands, int axis);
// Rows of x (axis 0): ids' dims, then x's after its rows. Along the last axis of x: ids' dims,
// which equal x's except on that axis.
absl::StatusOr<TensorType> InferGather(const TensorType& x, const TensorType& ids, int axis);
// x's type; rows has ids' dims, then x's after its rows.
absl::StatusOr<TensorType> InferScatter(const TensorType& x, const TensorType& ids,
                                        const TensorType& rows);
// s32 [.., count] of x [.., n].
absl::StatusOr<TensorType> InferTopK(const TensorType& x, int64_t count);
// Along the last axis. Floating x gives f32.
absl::StatusOr<TensorType> InferScan(ReduceKind kind, const TensorType& x);
// f32 `dims`; seed and offset are s32 or s64, each of rank 0 or with a number for each index of the
// same leading dims.
absl::StatusOr<TensorType> InferRandom(const std::vector<Dim>& dims, const TensorType& seed,
                                       const TensorType& offset);
// `axes` ascending.
absl::StatusOr<TensorType> InferReduce(ReduceKind kind, const TensorType& a,
                                       const std::vector<int32_t>& axes, bool keepdims);

// ScaleGrain: which elements of an operand of scaled_matmul share one value of its scale.
//
// y[i, j] = sum over k of a[i, k] * sa(i, k) * w[j, k] * sw(j, k), in exact arithmetic. Scales are
// f32 and dequantise; their extents say which elements share a value; they have the value's
// strides:
//   a [m, k]: [] or [1, 1] (the tensor), [m, 1] (a row), [m, k / 128] (128 of a row)
//   w [n, k]: [] or [1, 1], [n, 1] (a row: an output channel), [ceil(n / 128), k / 128] (a block of
//             128 x 128, the last one shorter), [n, k / 128]; also [1, k / 128] of both
// Where Accumulate is kFast, scales are of tensors and rows: scales of 128 of k need promoted sums.

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
// whose scale has its rank or is one value. The experts of w have their own scales: [experts, 1,
// 1], [experts, n, 1] or [experts, ceil(n / 128), k / 128].
absl::StatusOr<ScaleGrain> GroupedGrainOf(absl::string_view name, const TensorType& operand,
                                          const TensorType& scale, bool weights);

// Whether sums of k products of `dtype` are exact: of s8, k is at most kMostS8Sums.
absl::Status CheckSumsOf(DType dtype, Dim k);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_INFER_H_
