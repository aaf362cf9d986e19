#include "tests/bench/rounded_reference.h"

#include "src/chain/builder.h"
#include "src/reference/reference.h"

namespace sinter::bench {
namespace {

// A share of the sum of the terms' magnitudes: tensor cores keep 13 fraction bits of e4m3 products.
constexpr double kShareOfE4M3Sums = 0x1p-13;
constexpr double kTwice = 2;

bool Computes16Bits(const Op& op) {
  const bool computes = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary ||
                        op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul ||
                        op.kind == OpKind::kConv2d;
  return computes && IsFloat(op.type.dtype) && SizeOf(op.type.dtype) == 2;
}

bool SumsE4M3(const Chain& chain, const Op& op) {
  const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul;
  return product && chain.op(op.operands[0]).type.dtype == DType::kE4M3;
}

absl::StatusOr<ValueId> Magnitude(ChainBuilder& b, ValueId codes) {
  SINTER_ASSIGN_OR_RETURN(const ValueId wide, b.Cast(codes, DType::kF32));
  SINTER_ASSIGN_OR_RETURN(const ValueId magnitude, b.Unary(UnaryKind::kAbs, wide));
  return b.Cast(magnitude, DType::kE4M3);
}

// `sum`, which `op` makes, and its share of the sum of its terms' magnitudes.
absl::StatusOr<ValueId> ShiftedSum(ChainBuilder& b, Op op, ValueId sum) {
  for (const size_t factor : {0, 1}) {
    SINTER_ASSIGN_OR_RETURN(op.operands[factor], Magnitude(b, op.operands[factor]));
  }
  SINTER_ASSIGN_OR_RETURN(const ValueId magnitudes, Replay(b, op));
  SINTER_ASSIGN_OR_RETURN(const ValueId share, b.Scalar(kShareOfE4M3Sums));
  SINTER_ASSIGN_OR_RETURN(const ValueId shift, b.Binary(BinaryKind::kMul, magnitudes, share));
  return b.Binary(BinaryKind::kAdd, sum, shift);
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> RunRoundedReference(
    const Chain& chain, int64_t m, const std::vector<const void*>& inputs) {
  ChainBuilder b;
  std::vector<ValueId> now;
  std::vector<const void*> callers;
  for (const Op& op : chain.ops()) {
    if (op.kind == OpKind::kInput) {
      callers.push_back(inputs[static_cast<size_t>(op.input)]);
      SINTER_ASSIGN_OR_RETURN(const ValueId input, b.Input(op.type, {op.constant, op.strides, ""}));
      now.push_back(input);
      continue;
    }
    Op copy = op;
    for (ValueId& operand : copy.operands) operand = now[static_cast<size_t>(operand)];
    SINTER_ASSIGN_OR_RETURN(ValueId value, Replay(b, copy));
    if (Computes16Bits(op)) {
      SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, op.type.dtype));
    } else if (SumsE4M3(chain, op)) {
      SINTER_ASSIGN_OR_RETURN(value, ShiftedSum(b, std::move(copy), value));
    }
    now.push_back(value);
  }
  for (const ChainOutput& out : chain.outputs()) {
    SINTER_RETURN_IF_ERROR(b.Output(now[static_cast<size_t>(out.value)], {out.strides, -1}));
  }
  SINTER_ASSIGN_OR_RETURN(const Chain rounded, b.Finish());
  std::vector<const void*> canonical;
  for (const int32_t caller : rounded.InputOrder()) {
    canonical.push_back(callers[static_cast<size_t>(caller)]);
  }
  return RunReferenceF64(rounded, m, canonical);
}

Bounds BoundsWithRoundings(const Bounds& bounds, absl::Span<const double> rounded,
                           absl::Span<const double> exact, DType dtype) {
  const ErrorMeasure error = Compare(rounded, exact, dtype);
  const auto share = static_cast<double>(error.neighbours) /
                     static_cast<double>(std::max<int64_t>(error.count, 1));
  return {std::max(bounds.relative, kTwice * error.relative_but_one),
          std::max(bounds.max, kTwice * error.beyond_over_rms),
          std::max(bounds.neighbours, kTwice * share)};
}

}  // namespace sinter::bench
