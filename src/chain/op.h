// Op: one primitive of a chain and its only result.
#ifndef SINTER_SRC_CHAIN_OP_H_
#define SINTER_SRC_CHAIN_OP_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/chain/choices.h"
#include "src/chain/tensor_type.h"

namespace sinter {

// An op and its result share one number. In a Chain operands have smaller numbers than their users.
using ValueId = int32_t;

// Numbers of every enum here are part of the canonical form and of the C ABI: never reused.
enum class OpKind : int32_t {
  kInput = 1,
  kScalar = 2,
  kIota = 3,
  kMatmul = 4,
  kUnary = 5,
  kBinary = 6,
  kCompare = 7,
  kSelect = 8,
  kCast = 9,
  kBroadcast = 10,
  kTranspose = 11,
  kReshape = 12,
  kSlice = 13,
  kConcat = 14,
  kReduce = 15,
  kConv2d = 16,
  kScaledMatmul = 17,
  kGather = 18,
  kScatter = 19,
  kWindow = 20,
  kTopK = 21,
  kScan = 22,
  kRandom = 23,
  kGroupedMatmul = 24,
  kAllReduce = 25,
  kAllGather = 26,
  kReduceScatter = 27,
};

enum class UnaryKind : int32_t {
#define SINTER_UNARY(number, Name, ...) k##Name = number,
#include "src/chain/ops.def"
};
enum class BinaryKind : int32_t {
#define SINTER_BINARY(number, Name, ...) k##Name = number,
#include "src/chain/ops.def"
};
enum class CompareKind : int32_t {
#define SINTER_COMPARE(number, Name, ...) k##Name = number,
#include "src/chain/ops.def"
};
enum class ReduceKind : int32_t {
#define SINTER_REDUCE(number, Name, ...) k##Name = number,
#include "src/chain/ops.def"
};

// All of them, in the order of their numbers.
absl::Span<const UnaryKind> UnaryKinds();
absl::Span<const BinaryKind> BinaryKinds();
absl::Span<const CompareKind> CompareKinds();
absl::Span<const ReduceKind> ReduceKinds();

absl::string_view NameOf(OpKind kind);       // "matmul"
absl::string_view NameOf(UnaryKind kind);    // "neg"
absl::string_view NameOf(BinaryKind kind);   // "add"
absl::string_view NameOf(CompareKind kind);  // "eq"
absl::string_view NameOf(ReduceKind kind);   // "sum"
absl::StatusOr<UnaryKind> ParseUnaryKind(absl::string_view name);
absl::StatusOr<BinaryKind> ParseBinaryKind(absl::string_view name);
absl::StatusOr<CompareKind> ParseCompareKind(absl::string_view name);
absl::StatusOr<ReduceKind> ParseReduceKind(absl::string_view name);
absl::StatusOr<OpKind> ParseOpKind(absl::string_view name);
bool IsValid(OpKind kind);
bool IsValid(UnaryKind kind);
bool IsValid(BinaryKind kind);
bool IsValid(CompareKind kind);
bool IsValid(ReduceKind kind);

constexpr int32_t kMostRanks = 8;  // GPUs over which a chain may be split

// Fields that a kind does not use keep their defaults, so that == compares what matters.
struct Op {
  OpKind kind = OpKind::kInput;
  std::vector<ValueId> operands;
  TensorType type;  // of the result; for an intermediate the dtype is a minimum precision

  UnaryKind unary{};
  BinaryKind binary{};
  CompareKind compare{};
  ReduceKind reduce{};        // reduce, scan
  bool transpose_a = false;   // matmul: a is [..., k, m]
  bool transpose_b = false;   // matmul: b is [..., n, k]; grouped_matmul: w is [experts, n, k]
  bool keepdims = false;      // reduce: reduced axes stay with extent 1
  bool constant = false;      // input: never changes while a plan uses it
  int32_t input = -1;         // input: its index among the chain's inputs
  int32_t axis = -1;          // iota, concat, gather, all_gather, reduce_scatter
  double scalar = 0;          // scalar: already rounded to the dtype
  std::vector<int32_t> axes;  // reduce: ascending; transpose: result axis i is operand axis axes[i]
  std::vector<int64_t> starts;        // slice: per axis; result[i] = operand[starts + i * steps]
  std::vector<int64_t> steps;         // slice: per axis, >= 1
  std::vector<Stride> strides;        // input: per axis, always filled
  Conv2d conv;                        // conv2d; window: all but the filter's layout
  std::array<int64_t, 2> taps{1, 1};  // window: its height and width
  Accumulate accumulate{};            // scaled_matmul
  int32_t ranks = 1;                  // collective: 2 to kMostRanks
  SINTER_FIELDS(Op, kind, operands, type, unary, binary, compare, reduce, transpose_a, transpose_b,
                keepdims, constant, input, axis, scalar, axes, starts, steps, strides, conv, taps,
                accumulate, ranks);
};

// Whether it is a grouped_matmul of e4m3, with the operands a, w, ids, scale_a and scale_w.
inline bool IsScaledGrouped(const Op& op) {
  return op.kind == OpKind::kGroupedMatmul && op.operands.size() == 5;
}

// Whether it takes what all ranks have of its operand: all_reduce, all_gather, reduce_scatter.
bool IsCollective(const Op& op);

// Whether it only moves elements of one operand: broadcast, transpose, reshape, slice.
bool IsView(const Op& op);

// Whether ends, not ids, assign the rows of a grouped_matmul: then it has no slots.
bool IsByEnds(const Op& op);

// Whether a result needs all of a row of its operand, in order: top_k, scan.
bool TakesRow(const Op& op);

// How errors call an op: "add" for a binary add, "reduce" for any reduction.
absl::string_view NameOf(const Op& op);

// OpTraits: what kernels and planning need to know of an element-wise op, from its row in ops.def.

enum class OperandTypes { kFloats, kNumbers, kPreds };  // numbers: floats and s32

// How large the result's relative error is, for a relative error of an operand.
enum class ErrorRule {
  kPassed,       // no more than it was
  kGrownLittle,  // a few times as large
  kMayCancel,    // no more where no operand is negative; else it may be all that is left
  kGrown,        // operands have to be exact
};

// Which operands decide that a result is not negative.
enum class SignRule {
  kAny,                 // none: it may be
  kNeverNegative,       // it never is
  kNeverNegativeFloat,  // it never is where it is floating; s32 wraps
  kOfAllOperands,
  kOfOneOperand,
  kOfFirstOperand,
};

// For which results of 16 bits or fewer the approximate form is close enough.
enum class FastFor {
  kAll,
  kBF16,          // whose error may be 2^-11
  kBF16OfNarrow,  // and the operand has 16 bits too
  kNone,
};

// Where an op is not NaN or infinite.
enum class Domain { kAll, kNotZero, kPositive, kAboveMinusOne, kAboveOne, kInsideOne };

// A device function and what a call of it takes: issue slots, and special function instructions.
struct DeviceForm {
  const char* function = nullptr;
  double issue = 1, special = 0;
  bool slow = false;  // it branches to a slow path, for which a thread needs many registers besides
};

struct OpTraits {
  absl::string_view name;
  OperandTypes operands = OperandTypes::kFloats;
  // Within a few units in the last place of f32; for results of 16 bits or fewer, as `fast_for`
  // says; within 4e-7 where 1 is added to the result or it is taken from 1 (no function: none).
  DeviceForm exact, fast, beside_one;
  FastFor fast_for = FastFor::kAll;
  ErrorRule errors = ErrorRule::kGrown;
  SignRule sign = SignRule::kAny;
  Domain domain = Domain::kAll;
  bool steps = false;      // not continuous
  bool commutes = false;   // of two operands
  bool expensive = false;  // a fused kernel rather keeps the result than computes it twice
  // How many branches the op counts as. A kernel may have so many (src/stitch/body_work.h) because
  // they take long to compile: 100 times sin in f32 11.5 s, pow 8 s, log, erf and division 1 to 2
  // s, others less than 1 s.
  int compile_branches = 0;
  // For the library's own rows kernel, which holds f32 alone: an expression of x (and y). nullptr:
  // it has no such op; "": `exact`.
  const char* on_rows = "";
  // Whether kernels of products can compute it. They hold no array of digits, as sin has, and do
  // not include stitch/codes.cuh.
  bool in_products = true;
};

const OpTraits& TraitsOf(UnaryKind kind);
const OpTraits& TraitsOf(BinaryKind kind);
// `op` is unary or binary.
const OpTraits& TraitsOf(const Op& op);

// Whether `op` computes an element of its result from the elements at the same place: unary,
// binary, compare, select, cast.
bool IsElementWise(const Op& op);
bool IsUnary(const Op& op, UnaryKind kind);
bool IsBinary(const Op& op, BinaryKind kind);

// "==".
absl::string_view SignOf(CompareKind kind);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_OP_H_
