#include "src/chain/op.h"

#include <cstddef>

#include "absl/strings/str_join.h"
#include "src/base/refusal.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Name i belongs to enum value i + 1.
constexpr absl::string_view kOpKindNames[] = {
    "input",  "scalar", "iota",           "matmul",     "unary",      "binary",        "compare",
    "select", "cast",   "broadcast",      "transpose",  "reshape",    "slice",         "concat",
    "reduce", "conv2d", "scaled_matmul",  "gather",     "scatter",    "window",        "top_k",
    "scan",   "random", "grouped_matmul", "all_reduce", "all_gather", "reduce_scatter"};
constexpr absl::string_view kUnaryKindNames[] = {
#define SINTER_UNARY(number, Name, name, ...) #name,
#include "src/chain/ops.def"
};
constexpr absl::string_view kBinaryKindNames[] = {
#define SINTER_BINARY(number, Name, name, ...) #name,
#include "src/chain/ops.def"
};
constexpr absl::string_view kCompareKindNames[] = {
#define SINTER_COMPARE(number, Name, name, ...) #name,
#include "src/chain/ops.def"
};
constexpr absl::string_view kReduceKindNames[] = {
#define SINTER_REDUCE(number, Name, name) #name,
#include "src/chain/ops.def"
};

constexpr UnaryKind kUnaryKinds[] = {
#define SINTER_UNARY(number, Name, ...) UnaryKind::k##Name,
#include "src/chain/ops.def"
};
constexpr BinaryKind kBinaryKinds[] = {
#define SINTER_BINARY(number, Name, ...) BinaryKind::k##Name,
#include "src/chain/ops.def"
};
constexpr CompareKind kCompareKinds[] = {
#define SINTER_COMPARE(number, Name, ...) CompareKind::k##Name,
#include "src/chain/ops.def"
};
constexpr ReduceKind kReduceKinds[] = {
#define SINTER_REDUCE(number, Name, ...) ReduceKind::k##Name,
#include "src/chain/ops.def"
};

template <typename Kind, size_t kCount>
constexpr bool AreNumberedInOrder(const Kind (&kinds)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (static_cast<size_t>(kinds[i]) != i + 1) return false;
  }
  return true;
}
static_assert(AreNumberedInOrder(kUnaryKinds) && AreNumberedInOrder(kBinaryKinds) &&
                  AreNumberedInOrder(kCompareKinds) && AreNumberedInOrder(kReduceKinds),
              "rows of ops.def stand in the order of their numbers, without a gap");

template <typename Kind, size_t kCount>
absl::string_view Name(Kind kind, const absl::string_view (&names)[kCount]) {
  const int32_t index = static_cast<int32_t>(kind) - 1;
  return index >= 0 && index < static_cast<int32_t>(kCount) ? names[index] : "unknown";
}

template <typename Kind, size_t kCount>
absl::StatusOr<Kind> Parse(absl::string_view what, absl::string_view name,
                           const absl::string_view (&names)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Kind>(i + 1);
  }
  return InvalidField(what, name, absl::StrCat("one of ", absl::StrJoin(names, " ")));
}

template <typename Kind, size_t kCount>
bool InRange(Kind kind, const absl::string_view (&)[kCount]) {
  const int32_t value = static_cast<int32_t>(kind);
  return value >= 1 && value <= static_cast<int32_t>(kCount);
}

}  // namespace

absl::Span<const UnaryKind> UnaryKinds() { return kUnaryKinds; }
absl::Span<const BinaryKind> BinaryKinds() { return kBinaryKinds; }
absl::Span<const CompareKind> CompareKinds() { return kCompareKinds; }
absl::Span<const ReduceKind> ReduceKinds() { return kReduceKinds; }

absl::string_view NameOf(OpKind kind) { return Name(kind, kOpKindNames); }
absl::string_view NameOf(UnaryKind kind) { return Name(kind, kUnaryKindNames); }
absl::string_view NameOf(BinaryKind kind) { return Name(kind, kBinaryKindNames); }
absl::string_view NameOf(CompareKind kind) { return Name(kind, kCompareKindNames); }
absl::string_view NameOf(ReduceKind kind) { return Name(kind, kReduceKindNames); }

absl::StatusOr<OpKind> ParseOpKind(absl::string_view name) {
  return Parse<OpKind>("op", name, kOpKindNames);
}
absl::StatusOr<UnaryKind> ParseUnaryKind(absl::string_view name) {
  return Parse<UnaryKind>("unary", name, kUnaryKindNames);
}
absl::StatusOr<BinaryKind> ParseBinaryKind(absl::string_view name) {
  return Parse<BinaryKind>("binary", name, kBinaryKindNames);
}
absl::StatusOr<CompareKind> ParseCompareKind(absl::string_view name) {
  return Parse<CompareKind>("compare", name, kCompareKindNames);
}
absl::StatusOr<ReduceKind> ParseReduceKind(absl::string_view name) {
  return Parse<ReduceKind>("reduce", name, kReduceKindNames);
}

bool IsValid(OpKind kind) { return InRange(kind, kOpKindNames); }
bool IsValid(UnaryKind kind) { return InRange(kind, kUnaryKindNames); }
bool IsValid(BinaryKind kind) { return InRange(kind, kBinaryKindNames); }
bool IsValid(CompareKind kind) { return InRange(kind, kCompareKindNames); }
bool IsValid(ReduceKind kind) { return InRange(kind, kReduceKindNames); }

bool TakesRow(const Op& op) { return op.kind == OpKind::kTopK || op.kind == OpKind::kScan; }

bool IsByEnds(const Op& op) { return op.kind == OpKind::kGroupedMatmul && op.type.rank() == 2; }

bool IsCollective(const Op& op) {
  return op.kind == OpKind::kAllReduce || op.kind == OpKind::kAllGather ||
         op.kind == OpKind::kReduceScatter;
}

bool IsView(const Op& op) {
  return op.kind == OpKind::kReshape || op.kind == OpKind::kTranspose ||
         op.kind == OpKind::kSlice || op.kind == OpKind::kBroadcast;
}

absl::string_view NameOf(const Op& op) {
  switch (op.kind) {
    case OpKind::kUnary:
      return NameOf(op.unary);
    case OpKind::kBinary:
      return NameOf(op.binary);
    case OpKind::kCompare:
      return NameOf(op.compare);
    default:
      return NameOf(op.kind);
  }
}

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
               kAboveMinusOne = Domain::kAboveMinusOne, kAboveOne = Domain::kAboveOne,
               kInsideOne = Domain::kInsideOne;

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
  // The functions named so far have slow paths.
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
  constexpr Row& NotInProducts() {
    in_products = false;
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
