// Evaluator: all ops of a chain, once, for some rows of M. View, Tensor: how it holds values; a
// view reads any dtype and strides as float64.
#ifndef SINTER_SRC_REFERENCE_EVALUATOR_H_
#define SINTER_SRC_REFERENCE_EVALUATOR_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "src/base/dtype.h"
#include "src/chain/chain.h"
#include "src/chain/choices.h"
#include "src/chain/op.h"

namespace sinter::reference {

// How values lie in memory: as float64, or as the DType of this number.
enum class Storage : int32_t { kF64 = 0 };
constexpr Storage StorageOf(DType dtype) { return static_cast<Storage>(dtype); }
int64_t BytesOf(Storage storage);

// Strides in elements, 0 allowed. Does not own its data.
struct View {
  const void* data = nullptr;
  Storage storage = Storage::kF64;
  std::vector<int64_t> dims, strides;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t Count() const;
  bool IsContiguous() const;
  // The view whose first element is `elements` further on.
  View Moved(int64_t elements) const;
};

// A view and, for computed values, the buffer behind it, which views derived from it share.
struct Tensor {
  View view;
  std::shared_ptr<std::vector<double>> owned;
};

std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& dims);
// A contiguous f64 tensor; its buffer is (*result.owned), zeros.
Tensor MakeTensor(const std::vector<int64_t>& dims);

// out[i] = element offset + i * stride of the view, as f64.
void ReadRun(const View& view, int64_t offset, int64_t stride, int64_t count, double* out);

// value rounded to dtype, once, to nearest even; s32: toward zero, saturating, NaN gives 0; pred:
// != 0; e4m3: saturating to +-448, NaN kept; s8: to nearest even, saturating, NaN gives 0.
double RoundTo(DType dtype, double value);

// Stores values already in range of `storage`, rounding once: data[offset + i * stride] = in[i].
void StoreRun(const double* in, int64_t count, void* data, Storage storage, int64_t offset,
              int64_t stride);

// The offset of the linear-th element of the row-major index space `dims`.
inline int64_t OffsetOf(int64_t linear, const int64_t* dims, const int64_t* strides, int rank) {
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0; --i) {
    offset += linear % dims[i] * strides[i];
    linear /= dims[i];
  }
  return offset;
}

struct Pass {
  const Chain* chain = nullptr;
  int64_t m = 0;  // real M: strides and row numbers refer to it
  const std::vector<const void*>* inputs = nullptr;
  const std::vector<int64_t>* rows = nullptr;  // the rows to compute; nullptr: all, in order
  std::vector<bool> wanted;                    // per output: evaluate it
  bool skip_final_cast = false;
  int threads = 1;
};

// Whether `op` changes nothing: a cast to f32 of a value that is narrower in memory or was rounded
// narrower. Its result is its operand.
bool IsExactCast(const Chain& chain, const Op& op);

// For each rank the wanted outputs (others stay empty): `passes` differ in their inputs. Values
// live only as long as an op still needs them; movements are views where strides can express them.
// A result may be a view of an input.
std::vector<std::vector<Tensor>> Evaluate(const std::vector<Pass>& passes);

// ---- Elementwise ops, copies, gathers and iota over strided views.

// unary, binary, compare, select or cast. Operands of rank 0 spread; `dtypes` are the operands';
// dims are the result's.
Tensor Elementwise(const Op& op, const std::vector<DType>& dtypes, std::vector<View> operands,
                   const std::vector<int64_t>& dims, int threads);

// `from` written into `to`, whose element i lies at the row-major index i times `strides`.
void CopyInto(const View& from, double* to, const std::vector<int64_t>& strides, int threads);

// The view's elements, contiguous in f64.
Tensor Materialise(const View& view, int threads);

// result[..., i, ...] = index[i] along `axis`, or i where `index` is null.
Tensor Iota(const std::vector<int64_t>& dims, int axis, const std::vector<int64_t>* index,
            int threads);

// Rows of x by ids (axis 0), or elements of its last axis. An id outside of it gives zeros.
Tensor Gather(const View& x, const View& ids, int axis, int threads);

// result[b, p, q, r, s, c] is the pixel of x that tap (r, s) of result pixel (p, q) meets, `fill`
// outside of the image. dims are the result's.
Tensor Windows(const View& x, const View& fill, const Conv2d& conv,
               const std::vector<int64_t>& dims, int threads);

// For each row of x [.., n] the places of the dims.back() largest elements, falling. Among equal
// ones the lower place comes first; NaN is the largest.
Tensor TopK(const View& x, const std::vector<int64_t>& dims, int threads);
// Sums of each row of x [.., n] up to each element, in order; s32 wraps.
Tensor RunningSums(const View& x, DType dtype, int threads);
// Uniform in [0, 1) as f32 has it. `m` and `rows` are the pass's, along `axis` of dims; -1:
// none. A seed or offset with leading dims of `dims` has a number for each index of these.
Tensor Random(const View& seed, const View& offset, const std::vector<int64_t>& dims, int axis,
              int64_t m, const std::vector<int64_t>* rows);

// x with rows written where ids say, one after the other. An id outside of it writes nothing.
Tensor Scatter(const View& x, const View& ids, const View& rows, int threads);

// ---- Functions of ops.def that <cmath> has not, in float64.

// As f32 has it: at least 2^-126, above 2^127 infinite.
inline double CeilPow2(double x) {
  if (std::isnan(x)) return x;
  if (x <= 0x1p-126) return 0x1p-126;
  if (x > 0x1p127) return std::numeric_limits<double>::infinity();
  int exponent;
  return std::frexp(x, &exponent) == 0.5 ? x : std::ldexp(1.0, exponent);
}

// Written so that neither end overflows.
inline double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// What each rank gets of a collective op, by what each has of its operand.
std::vector<Tensor> Collect(const Op& op, const std::vector<View>& ranks, int threads);

// ---- Reductions over strided views.

// Each result takes its elements in row-major order, one after the other; s32 sums wrap. An empty
// sum is 0, an empty maximum the least value of the dtype, an empty mean NaN. The result has `dims`
// (op.type's).
Tensor Reduce(const Op& op, DType dtype, const View& in, const std::vector<int64_t>& dims,
              int threads);

// ---- Blocked float64 matrix product over strided views of any storage.

// a [batch..., m, k] and b [batch..., k, n], already transposed by their strides; batch dims equal
// or absent in one. Each element sums its products in ascending k, without fused multiply-add: the
// same bits on every x86-64 machine and for every thread count.
Tensor Matmul(const View& a, const View& b, int threads);

// ---- Float64 product of two matrices with scales.

// a [m, k] and w [n, k] with scales as src/chain/infer.h has them. The products of each 128
// of k (of all of k where no scale has groups) are summed in order, multiplied by both scales, and
// added in order, without fused multiply-add: the same bits for every thread count.
Tensor ScaledMatmul(const View& a, const View& w, const View& scale_a, const View& scale_w,
                    int threads);

// ---- Products of rows with the matrices that ids name.

// a [m, k] or [m, t, k], w [experts, k, n], already transposed by its strides, ids [m, t]. Sums as
// Matmul's. An id outside of w gives zeros.
Tensor GroupedMatmul(const View& a, const View& w, const View& ids, int threads);
// a [m, k], ends [experts]: row m's matrix is the first whose end is more than m. Rows past the
// last end are zeros.
Tensor GroupedMatmulByEnds(const View& a, const View& w, const View& ends, int threads);

// a [m, k] or [m, t, k], w [experts, n, k] and ids [m, t], with scales as src/chain/infer.h
// has them. Sums as ScaledMatmul's. An id outside of w gives zeros.
Tensor ScaledGroupedMatmul(const View& a, const View& w, const View& ids, const View& scale_a,
                           const View& scale_w, int threads);

// ---- Direct float64 convolution over strided views of any storage.

// x [batch, height, width, channels] with the filter `w`, both as InferConv2d takes them. Each
// element sums its taps in order, and the channels of each in order, without fused multiply-add;
// taps outside the image are left out. The same bits for every thread count.
Tensor Convolve(const View& x, const View& w, const Conv2d& conv, int threads);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_EVALUATOR_H_
