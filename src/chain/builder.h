// ChainBuilder: adds primitives one by one, each validated at once. Composites are in composites.h.
#ifndef SINTER_SRC_CHAIN_BUILDER_H_
#define SINTER_SRC_CHAIN_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/chain/chain.h"

namespace sinter {

struct InputOptions {
  bool constant =
      false;  // a weight: may be read before the kernels ahead on the stream have finished
  std::vector<Stride> strides;  // empty: contiguous; 0 repeats an element
  std::string name;             // diagnostics only
};

struct OutputOptions {
  std::vector<Stride> strides;  // empty: contiguous; must not overlap
  ValueId alias = -1;           // the input value whose buffer this output may share
};

// Every add returns the new value's id, or INVALID_ARGUMENT naming op index, kind, field, value and
// bound
// ("op 3 (matmul): k of a is 512, k of b is 256"), and then leaves the builder as it was.
// Result dtypes: matmul, sum and mean of floating operands give f32; matmul of s8 gives s32; binary
// and select give the wider floating dtype (f16 with bf16 gives f32); compare gives pred;
// everything else keeps its operand's. No dtype but a cast's rounds. Elementwise operands have
// equal dims, or one is rank 0 and spreads. Not thread-safe.
class ChainBuilder {
 public:
  absl::StatusOr<ValueId> Input(const TensorType& type, const InputOptions& options = {});
  // Rounded to dtype; NaN is refused. Rank 0.
  absl::StatusOr<ValueId> Scalar(double value, DType dtype = DType::kF32);
  // result[..., i, ...] = i along `axis`; dtype s32 or f32.
  absl::StatusOr<ValueId> Iota(const std::vector<Dim>& dims, int axis, DType dtype);
  // [batch..., m, k] x [batch..., k, n]; batch dims equal or absent in one operand. Both floating,
  // or both e4m3 (f32) or s8 (s32), which lie along k: a not transposed, b transposed.
  absl::StatusOr<ValueId> Matmul(ValueId a, ValueId b, bool transpose_a = false,
                                 bool transpose_b = false);
  // infer.h: a [m, k] and w [n, k] of e4m3 or s8, with their scales. f32 [m, n].
  absl::StatusOr<ValueId> ScaledMatmul(ValueId a, ValueId w, ValueId scale_a, ValueId scale_w,
                                       Accumulate accumulate = Accumulate::kPromoted);
  // Products of rows with the matrices that ids name, as in a mixture of experts: result[m, t] =
  // w[ids[m, t]] a[m], or a[m, t] of an a of rank 3. a [m, k] or [m, t, k], w [experts, n, k] with
  // `transpose_b`, else [experts, k, n], both floating, k a multiple of 8; ids s32 [m, t], no
  // constant; 1 to 32 slots t, 1 to 1024 experts. An id outside of w gives zeros. f32 [m, t, n].
  absl::StatusOr<ValueId> GroupedMatmul(ValueId a, ValueId w, ValueId ids,
                                        bool transpose_b = false);
  // The same of rows in the order of their matrices: result[m] = w[e] a[m] with the first e of m <
  // ends[e], ends s32 [experts]. So an end that is negative or less than an end before it ends no
  // rows, and one that exceeds the rows ends with them. Rows past the last end are zeros. a [m, k];
  // f32 [m, n].
  absl::StatusOr<ValueId> GroupedMatmulByEnds(ValueId a, ValueId w, ValueId ends,
                                              bool transpose_b = false);
  // The same of e4m3 with their scales (infer.h): w is [experts, n, k]. An op of the kind
  // kGroupedMatmul with the operands a, w, ids, scale_a, scale_w.
  absl::StatusOr<ValueId> ScaledGroupedMatmul(ValueId a, ValueId w, ValueId ids, ValueId scale_a,
                                              ValueId scale_w);
  // The sum of x over the GPUs of a group, of which each has its own inputs: of x rounded to its
  // dtype, floating, in the order of ranks, in f32, rounded to x's dtype. `ranks` in [1, 8] is the
  // same in the whole chain; of 1 it is a cast to x's dtype.
  absl::StatusOr<ValueId> AllReduce(ValueId x, int32_t ranks);
  // Joins every rank's x along `axis`, in the order of ranks. x holds floats and is rounded to its
  // dtype; `axis` is not M.
  absl::StatusOr<ValueId> AllGather(ValueId x, int axis, int32_t ranks);
  // This rank's part of AllReduce(x, ranks): of `axis`, which is not M, rank r has the r-th of
  // `ranks` equal parts.
  absl::StatusOr<ValueId> ReduceScatter(ValueId x, int axis, int32_t ranks);
  // x [batch, height, width, channels] (NHWC) with the filter w; f32 [batch, p, q, out]. Only the
  // batch may be M. Finish makes a product of it where each pixel has one tap, its own.
  absl::StatusOr<ValueId> Convolve(ValueId x, ValueId w, const Conv2d& conv = {});
  // result[b, p, q, r, s, c] is the pixel of x that tap (r, s) of result pixel (p, q) meets, `fill`
  // outside of the image. `conv`: how the window moves; its filter layout is not looked at.
  absl::StatusOr<ValueId> Window(ValueId x, ValueId fill, const std::array<int64_t, 2>& taps,
                                 const Conv2d& conv = {});
  absl::StatusOr<ValueId> Unary(UnaryKind kind, ValueId a);
  absl::StatusOr<ValueId> Binary(BinaryKind kind, ValueId a, ValueId b);
  absl::StatusOr<ValueId> Compare(CompareKind kind, ValueId a, ValueId b);
  // result = condition ? a : b
  absl::StatusOr<ValueId> Select(ValueId condition, ValueId a, ValueId b);
  // The only op that rounds: nearest even. To s32: toward zero, saturating, NaN gives 0. To pred:
  // != 0. To e4m3: saturating to +-448. To s8: saturating to [-128, 127], NaN gives 0. Values of
  // e4m3 and s8 can only be cast, selected, moved and multiplied by Matmul, ScaledMatmul and
  // ScaledGroupedMatmul.
  absl::StatusOr<ValueId> Cast(ValueId a, DType dtype);
  // Dims aligned at the right; an extent of 1 (or a missing axis) repeats.
  absl::StatusOr<ValueId> Broadcast(ValueId a, const std::vector<Dim>& dims);
  absl::StatusOr<ValueId> Transpose(ValueId a, const std::vector<int32_t>& permutation);
  // Same elements in row-major order; M occurs as often on both sides.
  absl::StatusOr<ValueId> Reshape(ValueId a, const std::vector<Dim>& dims);
  // Per axis operand[start : limit : step]; a symbolic axis is taken whole (0, M, 1). `steps`
  // empty: all 1.
  absl::StatusOr<ValueId> Slice(ValueId a, const std::vector<int64_t>& starts,
                                const std::vector<Dim>& limits,
                                const std::vector<int64_t>& steps = {});
  // 1 to 64 operands of one dtype along a constant axis.
  absl::StatusOr<ValueId> Concat(absl::Span<const ValueId> operands, int axis);
  // ids s32, or s64: result[i.., j..] = x[ids[i..], j..] along axis 0, rows of x; along the last
  // axis, or -1, result[i.., t] = x[i.., ids[i.., t]]. An id outside of x gives zeros. Values of
  // s64 are inputs and views of them, and nothing but ids of gathers and scatters.
  absl::StatusOr<ValueId> Gather(ValueId x, ValueId ids, int axis = 0);
  // x with rows written over it: result[ids[i..], j..] = rows[i.., j..], of equal ids the last one
  // in row-major order; an id outside of x writes nothing. rows of x's dtype, ids as in a gather.
  absl::StatusOr<ValueId> Scatter(ValueId x, ValueId ids, ValueId rows);
  // s32 ids [.., count] of the `count` largest numbers of each row of x [.., n], falling; of equal
  // ones the lower id first, -0 is 0, NaN counts as the largest. `count` in [1, 64].
  absl::StatusOr<ValueId> TopK(ValueId x, int64_t count);
  // result[.., i] is what `kind`, sum, makes of x[.., 0] to x[.., i].
  absl::StatusOr<ValueId> Scan(ReduceKind kind, ValueId x);
  // Uniform f32 in [0, 1): the element of row-major index i is word 0 of Philox4x32-10 of key
  // `seed` and counter `offset` + i, both s32 or s64 of rank 0. Either may have a number for each
  // index of the leading dims, e.g. of each row; i then counts the elements of that index.
  absl::StatusOr<ValueId> Random(const std::vector<Dim>& dims, ValueId seed, ValueId offset);
  // `axes` distinct, any order, at least one; mean of integers is refused.
  absl::StatusOr<ValueId> Reduce(ReduceKind kind, ValueId a, const std::vector<int32_t>& axes,
                                 bool keepdims = false);

  // Declares the next output. A value may be declared more than once.
  absl::Status Output(ValueId value, const OutputOptions& options = {});
  // FAILED_PRECONDITION without outputs, INVALID_ARGUMENT on a dead value. The builder is spent
  // afterwards only on success.
  absl::StatusOr<Chain> Finish();

  // The type of a value already added. Precondition: 0 <= id < size().
  const TensorType& TypeOf(ValueId id) const { return ops_[id].type; }
  const Op& OpOf(ValueId id) const { return ops_[id]; }
  int size() const { return static_cast<int>(ops_.size()); }
  bool Contains(ValueId id) const { return id >= 0 && id < size(); }

 private:
  friend class BuilderTransaction;
  absl::Status Error(absl::string_view kind, absl::string_view message) const;
  absl::Status Error(absl::string_view kind, const absl::Status& why) const;
  absl::Status CheckOperand(absl::string_view kind, absl::string_view field, ValueId id) const;
  absl::Status CheckOperands(absl::string_view kind,
                             std::initializer_list<std::pair<const char*, ValueId>> ids) const;
  absl::StatusOr<ValueId> Add(absl::string_view kind, Op op, absl::StatusOr<TensorType> type);
  absl::StatusOr<ValueId> AddCollective(OpKind kind, ValueId x, int axis, int32_t ranks,
                                        absl::StatusOr<TensorType> type);
  absl::StatusOr<ValueId> AddGrouped(ValueId a, ValueId w, ValueId groups, bool by_ends,
                                     bool transpose_b);
  absl::Status CheckIds(absl::string_view kind, const Op& op,
                        const absl::StatusOr<TensorType>& type) const;
  absl::Status CheckAlias(absl::string_view where, const ChainOutput& out, ValueId alias) const;

  absl::Status MakeProducts();

  std::vector<Op> ops_;                   // in the caller's order
  std::vector<ChainOutput> outputs_;      // alias_input holds the caller's input index until Finish
  std::vector<std::string> input_names_;  // one per input
};

// Rolls a builder back to where it stood unless Commit is called: composites add all of their
// primitives or none.
class BuilderTransaction {
 public:
  explicit BuilderTransaction(ChainBuilder& builder);
  ~BuilderTransaction();
  BuilderTransaction(const BuilderTransaction&) = delete;
  BuilderTransaction& operator=(const BuilderTransaction&) = delete;
  void Commit() { committed_ = true; }

 private:
  ChainBuilder& builder_;
  size_t ops_, outputs_, names_;
  bool committed_ = false;
};

// Replay: adds an Op that someone wrote down (bytes or JSON) through the builder that validates it.

// Uses what `op`'s kind needs of it; op.type matters where it is not inferred (input, scalar, iota,
// cast, broadcast, reshape, slice) and must equal the inferred type elsewhere when `check_type`.
// Wrong operand counts are errors.
absl::StatusOr<ValueId> Replay(ChainBuilder& builder, const Op& op, bool check_type = true);

// The limits of a slice: the least that give its result.
std::vector<Dim> SliceLimits(const Op& op);

// Operands that a kind takes; -1 when any number from 1. A grouped_matmul with scales has two more.
int OperandCount(OpKind kind);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_BUILDER_H_
