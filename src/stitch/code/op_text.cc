#include "src/stitch/code/op_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

// Types of generated source (src/device/stitch/pack.cuh): what describes an element, what memory
// holds, what arithmetic is done in.
struct ElementText {
  DType dtype;
  const char *element, *stored, *word;
};
constexpr ElementText kElements[] = {
    {DType::kF32, "ElementF32", "float", "float"},
    {DType::kF16, "ElementF16", "u16", "float"},
    {DType::kBF16, "ElementBF16", "u16", "float"},
    {DType::kS32, "ElementS32", "int", "int"},
    {DType::kPred, "ElementPred", "unsigned char", "bool"},
    {DType::kE4M3, "ElementE4M3", "unsigned char", "float"},
    {DType::kS8, "ElementS8", "signed char", "int"},
    {DType::kS64, "ElementS64", "long long", "long long"},
};

const ElementText& TextOf(DType dtype) {
  return *std::find_if(std::begin(kElements), std::end(kElements) - 1,
                       [&](const ElementText& row) { return row.dtype == dtype; });
}

std::string CastText(DType from, DType to, const std::string& x) {
  if (to == DType::kPred) return absl::StrCat("to_pred(", x, ")");
  if (to == DType::kS32) return absl::StrCat("to_s32(", x, ")");
  if (to == DType::kS8) return absl::StrCat("to_s8(", x, ")");
  const std::string wide = HoldsFloats(from) ? x : absl::StrCat("to_f32(", x, ")");
  if (to == DType::kF32) return wide;
  return absl::StrCat("rounded<", ElementTypeName(to), ">(", wide, ")");
}

}  // namespace

bool NeedsCodes(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
    return op.type.dtype == DType::kS8 || IsUnary(op, UnaryKind::kCeilPow2);
  });
}

const char* WordName(DType dtype) { return TextOf(dtype).word; }
const char* StoredName(DType dtype) { return TextOf(dtype).stored; }
const char* ElementTypeName(DType dtype) { return TextOf(dtype).element; }
const char* WordElement(DType dtype) {
  return ElementTypeName(HoldsFloats(dtype)      ? DType::kF32
                         : dtype == DType::kPred ? DType::kPred
                                                 : DType::kS32);
}

const char* JoinName(ReduceKind kind) {
  return kind == ReduceKind::kMax ? "Largest" : kind == ReduceKind::kMin ? "Smallest" : "Sum";
}

std::string ScalarText(const Op& scalar) {
  if (scalar.type.dtype == DType::kPred) return scalar.scalar != 0 ? "true" : "false";
  if (WordName(scalar.type.dtype) == absl::string_view("int")) {
    return absl::StrCat("(", static_cast<int64_t>(scalar.scalar), ")");
  }
  return FloatText(scalar.scalar);
}

bool CastRounds(const Chain& body, const Op& cast) {
  const DType from = body.op(cast.operands[0]).type.dtype, to = cast.type.dtype;
  if (from != to) return !(HoldsFloats(from) && to == DType::kF32);
  if (SizeOf(to) != 2) return false;
  // A value of 16 bits that was computed is not rounded yet: its type is its least precision.
  const Op* op = &body.op(cast.operands[0]);
  while (IsView(*op)) op = &body.op(op->operands[0]);
  return op->kind != OpKind::kInput && op->kind != OpKind::kScalar && op->kind != OpKind::kCast;
}

std::string OpText(const Op& op, DType operand, absl::Span<const std::string> x,
                   Precision precision, bool alone) {
  if (alone) return absl::StrCat("Exact::sub_alone(", absl::StrJoin(x, ", "), ")");
  switch (op.kind) {
    case OpKind::kUnary:
    case OpKind::kBinary:
      return absl::StrCat(FormOf(TraitsOf(op), precision).function, "(", absl::StrJoin(x, ", "),
                          ")");
    case OpKind::kCompare:
      return absl::StrCat("(", x[0], " ", SignOf(op.compare), " ", x[1], ")");
    case OpKind::kSelect:
      return absl::StrCat("(", x[0], " ? ", x[1], " : ", x[2], ")");
    default:
      return CastText(operand, op.type.dtype, x[0]);
  }
}

std::string CompoundText(const Compound& compound, const std::string& x) {
  const char* function =
      compound.function == Compound::kLog1p         ? TraitsOf(UnaryKind::kLog1p).exact.function
      : compound.function == Compound::kOnePlusTanh ? "BesideOne::one_plus_tanh"
                                                    : "BesideOne::one_minus_tanh_square";
  const std::string of = !compound.minus            ? x
                         : absl::StartsWith(x, "-") ? absl::StrCat("-(", x, ")")
                                                    : absl::StrCat("-", x);
  return absl::StrCat(compound.negative ? "-" : "", function, "(", of, ")");
}

std::string TakeText(const Op& op, const std::string& sum, const std::string& value,
                     const std::string& share) {
  const bool product = op.kind == OpKind::kMatmul;
  if (!product && op.reduce == ReduceKind::kMean) {
    return absl::Substitute("$0 = fmaf($1, $2, $0);", sum, value, share);
  }
  return absl::Substitute("$0 = $1::join<$2>($0, $3);", sum, product ? "Sum" : JoinName(op.reduce),
                          WordName(op.type.dtype), value);
}

double MeanRest(int64_t count) { return 1 / (MeanShare(count) * static_cast<double>(count)); }

}  // namespace sinter
