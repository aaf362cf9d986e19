#include "src/chain/op_traits.h"

#include <cstddef>

namespace sinter {
namespace {

// Words of ops.def.
constexpr auto kPassed = ErrorRule::kPassed, kGrownLittle = ErrorRule::kGrownLittle,
               kMayCancel = ErrorRule::kMayCancel;
constexpr auto kNeverNegative = SignRule::kNeverNegative,
               kNeverNegativeFloat = SignRule::kNeverNegativeFloat,
               kOfAllOperands = SignRule::kOfAllOperands, kOfOneOperand = SignRule::kOfOneOperand,
               kOfFirstOperand = SignRule::kOfFirstOperand;
constexpr auto kBF16 = FastFor::kBF16, kBF16OfNarrow = FastFor::kBF16OfNarrow,
               kNone = FastFor::kNone;
constexpr auto kNotZero = Domain::kNotZero, kPositive = Domain::kPositive,
               kAboveMinusOne = Domain::kAboveMinusOne;

// What rows of ops.def call.
struct Row : OpTraits {
  constexpr Row(absl::string_view op, OperandTypes types, const char* exactly, const char* fastly) {
    name = op;
    operands = types;
    exact.function = exactly;
    fast.function = fastly;
  }
  constexpr Row& Calls(const char* exactly, const char* fastly) {
    exact.function = exactly;
    fast.function = fastly;
    return *this;
  }
  constexpr Row& Calls(const char* function) { return Calls(function, function); }
  constexpr Row& Costs(double issue, double special) {
    exact = {exact.function, issue, special, false};
    fast = {fast.function, issue, special, false};
    return *this;
  }
  // What stands before it has slow paths.
  constexpr Row& Slow() {
    exact.slow = fast.slow = true;
    return *this;
  }
  constexpr Row& FastCosts(double issue, double special, FastFor results = FastFor::kAll) {
    fast = {fast.function, issue, special, false};
    fast_for = results;
    return *this;
  }
  constexpr Row& BesideOne(const char* function, double issue, double special) {
    beside_one = {function, issue, special, false};
    return *this;
  }
  constexpr Row& Errors(ErrorRule rule) {
    errors = rule;
    return *this;
  }
  constexpr Row& Sign(SignRule rule) {
    sign = rule;
    return *this;
  }
  constexpr Row& Of(Domain numbers) {
    domain = numbers;
    return *this;
  }
  constexpr Row& Steps() {
    steps = true;
    return *this;
  }
  constexpr Row& Commutes() {
    commutes = true;
    return *this;
  }
  constexpr Row& Expensive() {
    expensive = true;
    return *this;
  }
  constexpr Row& Compiles(int branches) {
    compile_branches = branches;
    return *this;
  }
  constexpr Row& OnRows(const char* expression) {
    on_rows = expression;
    return *this;
  }
};

constexpr OpTraits kUnary[] = {
#define SINTER_UNARY(number, Name, name, operands, reference, ...) \
  Row(#name, OperandTypes::k##operands, "Exact::" #name, "Fast::" #name) __VA_ARGS__,
#include "src/chain/ops.def"
};
constexpr OpTraits kBinary[] = {
#define SINTER_BINARY(number, Name, name, operands, reference, ...) \
  Row(#name, OperandTypes::k##operands, "Exact::" #name, "Fast::" #name) __VA_ARGS__,
#include "src/chain/ops.def"
};

}  // namespace

const OpTraits& TraitsOf(UnaryKind kind) { return kUnary[static_cast<size_t>(kind) - 1]; }
const OpTraits& TraitsOf(BinaryKind kind) { return kBinary[static_cast<size_t>(kind) - 1]; }
const OpTraits& TraitsOf(const Op& op) {
  return op.kind == OpKind::kUnary ? TraitsOf(op.unary) : TraitsOf(op.binary);
}

absl::string_view SignOf(CompareKind kind) {
  constexpr absl::string_view kSigns[] = {
#define SINTER_COMPARE(number, Name, name, sign) #sign,
#include "src/chain/ops.def"
  };
  return kSigns[static_cast<size_t>(kind) - 1];
}

bool IsElementWise(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kCompare ||
         op.kind == OpKind::kSelect || op.kind == OpKind::kCast;
}

bool IsUnary(const Op& op, UnaryKind kind) { return op.kind == OpKind::kUnary && op.unary == kind; }
bool IsBinary(const Op& op, BinaryKind kind) {
  return op.kind == OpKind::kBinary && op.binary == kind;
}

}  // namespace sinter
