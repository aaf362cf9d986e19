#include "tests/bench/exact_graph.h"

#include "absl/numeric/bits.h"
#include "src/chain/builder.h"
#include "src/engine/verify.h"
#include "src/reference/evaluator.h"
#include "src/reference/reference.h"

namespace sinter::bench {
namespace {

constexpr double kQuarter = 0.25, kMostScalar = 2;
constexpr int kF32Bits = 24;

size_t Index(int32_t id) { return static_cast<size_t>(id); }
bool IsNarrowFloat(DType dtype) { return IsFloat(dtype) && SizeOf(dtype) == 2; }

UnaryKind Exact(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::kNeg:
    case UnaryKind::kAbs:
    case UnaryKind::kRelu:
    case UnaryKind::kNot:
    case UnaryKind::kFloor:
    case UnaryKind::kCeil:
    case UnaryKind::kRound:
    case UnaryKind::kTrunc:
    case UnaryKind::kCeilPow2:
    case UnaryKind::kSquare:
      return kind;
    case UnaryKind::kTanh:
    case UnaryKind::kErf:
      return UnaryKind::kRelu;
    case UnaryKind::kExp:
    case UnaryKind::kSqrt:
    case UnaryKind::kSigmoid:
    case UnaryKind::kCosh:
    case UnaryKind::kErfc:
    case UnaryKind::kExp2:
      return UnaryKind::kAbs;
    default:
      return UnaryKind::kNeg;
  }
}

BinaryKind Exact(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::kDiv:
      return BinaryKind::kSub;
    case BinaryKind::kPow:
    case BinaryKind::kHypot:
      return BinaryKind::kMax;
    case BinaryKind::kAtan2:
      return BinaryKind::kMin;
    default:
      return kind;
  }
}

double ExactScalar(double value) {
  if (std::isnan(value)) return kQuarter;
  const double held = std::max(-kMostScalar, std::min(kMostScalar, value));
  const double quarters = std::nearbyint(held / kQuarter) * kQuarter;
  return quarters != 0 || value == 0 ? quarters : std::copysign(kQuarter, value);
}

// The least and the largest magnitude that matter of a value: all elements are multiples of `unit`.
struct Extent {
  double unit = std::numeric_limits<double>::infinity(), largest = 0;
  bool finite = true;

  explicit Extent(const std::vector<double>& values) {
    for (double value : values) {
      finite = finite && std::isfinite(value);
      if (value == 0 || !finite) continue;
      int exponent = 0;
      const double mantissa = std::frexp(std::fabs(value), &exponent);
      const int low = absl::countr_zero(static_cast<uint64_t>(std::ldexp(mantissa, 53)));
      unit = std::min(unit, std::ldexp(1.0, exponent - 53 + low));
      largest = std::max(largest, std::fabs(value));
    }
  }
  bool Holds(double scale = 1) const {
    return finite && (largest == 0 || largest * scale <= std::ldexp(unit, kF32Bits));
  }
};

bool IsSum(const Op& op) {
  return op.kind == OpKind::kScan ||
         (op.kind == OpKind::kReduce &&
          (op.reduce == ReduceKind::kSum || op.reduce == ReduceKind::kMean));
}

// Terms of each sum of a product.
double TermsOf(const Chain& chain, const Op& op, int64_t m) {
  const TensorType& w = chain.op(op.operands[1]).type;
  double elements = 1;
  for (const Dim& dim : w.dims) elements *= static_cast<double>(dim.At(m));
  const double columns = static_cast<double>(op.type.dims.back().At(m));
  return std::max(1.0, elements / std::max(1.0, columns));
}

bool IsE4M3(const Chain& chain, ValueId id) { return chain.op(id).type.dtype == DType::kE4M3; }

}  // namespace

absl::StatusOr<Chain> WithExactOps(const Chain& chain) {
  ChainBuilder b;
  std::vector<ValueId> now;
  std::vector<ValueId> inputs(Index(chain.num_inputs()));
  for (const Op& op : chain.ops()) {
    Op copy = op;
    for (ValueId& operand : copy.operands) operand = now[Index(operand)];
    const bool is_float = IsFloat(op.type.dtype);
    if (op.kind == OpKind::kUnary) copy.unary = Exact(op.unary);
    if (op.kind == OpKind::kBinary) copy.binary = Exact(op.binary);
    if (op.kind == OpKind::kReduce && op.reduce == ReduceKind::kMean)
      copy.reduce = ReduceKind::kSum;
    if (op.kind == OpKind::kScalar && is_float) copy.scalar = ExactScalar(op.scalar);
    SINTER_ASSIGN_OR_RETURN(ValueId value, Replay(b, copy, /*check_type=*/false));
    const bool computes = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary;
    if (computes && IsNarrowFloat(b.TypeOf(value).dtype)) {
      SINTER_ASSIGN_OR_RETURN(value, b.Cast(value, b.TypeOf(value).dtype));
    }
    if (op.kind == OpKind::kInput) inputs[Index(op.input)] = value;
    now.push_back(value);
  }
  for (const ChainOutput& out : chain.outputs()) {
    const ValueId alias = out.alias_input < 0 ? -1 : inputs[Index(out.alias_input)];
    SINTER_RETURN_IF_ERROR(b.Output(now[Index(out.value)], {out.strides, alias}));
  }
  return b.Finish();
}

absl::StatusOr<std::vector<std::string>> Quarters(const Chain& chain, int64_t m, uint64_t seed) {
  SINTER_ASSIGN_OR_RETURN(std::vector<std::string> inputs, RandomInputs(chain, m, seed));
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = chain.input_op(static_cast<int>(i)).type.dtype;
    if (!HoldsFloats(dtype)) continue;
    std::vector<double> values(inputs[i].size() / static_cast<size_t>(SizeOf(dtype)));
    for (double& value : values) value = static_cast<double>(random() % 9) * kQuarter - 1;
    reference::StoreRun(values.data(), static_cast<int64_t>(values.size()), inputs[i].data(),
                        reference::StorageOf(dtype), 0, 1);
  }
  return inputs;
}

absl::StatusOr<bool> IsExactInF32(const Chain& chain, int64_t m,
                                  const std::vector<std::string>& inputs) {
  ChainBuilder b;  // outputs every value except S64 ones
  std::vector<const void*> callers;
  std::vector<ValueId> given_out;
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kInput) callers.push_back(inputs[Index(op.input)].data());
    SINTER_RETURN_IF_ERROR(Replay(b, op).status());
    if (op.type.dtype == DType::kS64) continue;
    given_out.push_back(static_cast<ValueId>(id));
    SINTER_RETURN_IF_ERROR(b.Output(static_cast<ValueId>(id)));
  }
  SINTER_ASSIGN_OR_RETURN(const Chain all, b.Finish());
  std::vector<const void*> canonical;
  for (const int32_t caller : all.InputOrder()) canonical.push_back(callers[Index(caller)]);
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::vector<double>> values,
                          RunReferenceF64(all, m, canonical));
  std::vector<Extent> extents(chain.ops().size(), Extent({}));
  for (size_t i = 0; i < values.size(); ++i) extents[Index(given_out[i])] = Extent(values[i]);
  for (size_t id = 0; id < chain.ops().size(); ++id) {
    const Op& op = chain.op(static_cast<ValueId>(id));
    // A random number is exact; what is computed of it may not be.
    if (!HoldsFloats(op.type.dtype) || op.kind == OpKind::kRandom) continue;
    if (!extents[id].Holds()) return false;
    if (IsSum(op)) {
      const double terms =
          static_cast<double>(*ElementCount(chain.op(op.operands[0]).type.dims, m));
      double sums = static_cast<double>(*ElementCount(op.type.dims, m));
      if (op.kind == OpKind::kScan) sums /= static_cast<double>(op.type.dims.back().value);
      if (!extents[Index(op.operands[0])].Holds(terms / std::max(1.0, sums))) return false;
    }
    const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kConv2d;
    if (op.kind == OpKind::kScaledMatmul) return false;
    if (!product) continue;
    if (IsE4M3(chain, op.operands[0])) return false;
    const Extent &x = extents[Index(op.operands[0])], &w = extents[Index(op.operands[1])];
    const double most = x.largest * w.largest * TermsOf(chain, op, m);
    if (most > 0 && most > std::ldexp(x.unit * w.unit, kF32Bits)) return false;
  }
  return true;
}

}  // namespace sinter::bench
