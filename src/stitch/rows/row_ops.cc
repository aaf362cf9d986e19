#include "src/stitch/rows/row_ops.h"

namespace sinter {

absl::optional<RowOp> RowOpOf(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::kNeg:
      return kRowNeg;
    case UnaryKind::kAbs:
      return kRowAbs;
    case UnaryKind::kExp:
      return kRowExp;
    case UnaryKind::kLog:
      return kRowLog;
    case UnaryKind::kSqrt:
      return kRowSqrt;
    case UnaryKind::kRsqrt:
      return kRowRsqrt;
    case UnaryKind::kTanh:
      return kRowTanh;
    case UnaryKind::kErf:
      return kRowErf;
    case UnaryKind::kSigmoid:
      return kRowSigmoid;
    case UnaryKind::kRelu:
      return kRowRelu;
    case UnaryKind::kReciprocal:
      return kRowReciprocal;
    case UnaryKind::kSquare:
      return kRowSquare;
    case UnaryKind::kSin:
      return kRowSin;
    case UnaryKind::kCos:
      return kRowCos;
    case UnaryKind::kFloor:
      return kRowFloor;
    case UnaryKind::kNot:
      return kRowNot;
    case UnaryKind::kLog1p:
      return kRowLog1p;
    case UnaryKind::kCeilPow2:
    case UnaryKind::kExpm1:
    case UnaryKind::kCeil:
    case UnaryKind::kRound:
      break;
  }
  return absl::nullopt;
}

RowOp RowOpOf(BinaryKind kind) {
  constexpr RowOp kOps[] = {kRowAdd, kRowSub, kRowMul, kRowDiv, kRowMax,
                            kRowMin, kRowPow, kRowAnd, kRowOr};
  return kOps[static_cast<int>(kind) - 1];
}

}  // namespace sinter
