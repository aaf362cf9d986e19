// OpTraits: what kernels and planning need to know of an element-wise op, from its row in ops.def.
#ifndef SINTER_SRC_CHAIN_OP_TRAITS_H_
#define SINTER_SRC_CHAIN_OP_TRAITS_H_

#include "absl/strings/string_view.h"
#include "src/chain/op.h"

namespace sinter {

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
enum class Domain { kAll, kNotZero, kPositive, kAboveMinusOne };

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

#endif  // SINTER_SRC_CHAIN_OP_TRAITS_H_
