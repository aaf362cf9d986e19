#include "src/chain/op.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", name, ", must be one of ", absl::StrJoin(names, " ")));
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

bool Op::operator==(const Op& o) const {
  return kind == o.kind && operands == o.operands && type == o.type && unary == o.unary &&
         binary == o.binary && compare == o.compare && reduce == o.reduce &&
         transpose_a == o.transpose_a && transpose_b == o.transpose_b && keepdims == o.keepdims &&
         constant == o.constant && input == o.input && axis == o.axis && scalar == o.scalar &&
         axes == o.axes && starts == o.starts && steps == o.steps && strides == o.strides &&
         conv == o.conv && taps == o.taps && accumulate == o.accumulate && ranks == o.ranks;
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

}  // namespace sinter
