#include "src/stitch/precision.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

namespace sinter {
namespace {

// What the readers of a value ask of it, from the least: nothing, a relative error of 2^-10, one of
// 2^-19, f32 arithmetic of which a result of 16 bits or fewer is made, and an f32 result.
enum class Demand { kNone, kCoarse, kFast, kClose, kExact };

bool IsReduction(const Op& op, ReduceKind kind) {
  return op.kind == OpKind::kReduce && op.reduce == kind;
}
bool IsNarrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

ValueId BehindSpreads(const Chain& body, ValueId id) {
  while (body.op(id).kind == OpKind::kBroadcast || body.op(id).kind == OpKind::kReshape) {
    id = body.op(id).operands[0];
  }
  return id;
}

bool IsOne(const Chain& body, ValueId id) {
  const Op& op = body.op(BehindSpreads(body, id));
  return op.kind == OpKind::kScalar && std::fabs(op.scalar) == 1;
}

// Zeros and ones.
bool IsOfPredicates(const Chain& body, ValueId id) {
  const Op& op = body.op(BehindSpreads(body, id));
  return op.kind == OpKind::kCast && body.op(op.operands[0]).type.dtype == DType::kPred;
}

bool IsSquare(const Op& op) {
  return IsUnary(op, UnaryKind::kSquare) ||
         (IsBinary(op, BinaryKind::kMul) && op.operands[0] == op.operands[1]);
}

// A sum of exp(x - the largest x): at least 1, of terms of at most 1.
bool SumsAboutLargest(const Chain& body, const Op& sum) {
  if (!IsReduction(sum, ReduceKind::kSum)) return false;
  const Op& exp = body.op(sum.operands[0]);
  if (!IsUnary(exp, UnaryKind::kExp)) return false;
  const Op& sub = body.op(exp.operands[0]);
  if (!IsBinary(sub, BinaryKind::kSub)) return false;
  const Op& largest = body.op(BehindSpreads(body, sub.operands[1]));
  return IsReduction(largest, ReduceKind::kMax) && largest.operands[0] == sub.operands[0] &&
         largest.axes == sum.axes;
}

// A tanh or an erf, which have a form for kBesideOne, or a square of one.
bool IsBoundedByOne(const Chain& body, ValueId id) {
  const Op& op = body.op(IsSquare(body.op(id)) ? body.op(id).operands[0] : id);
  return op.kind == OpKind::kUnary && TraitsOf(op).beside_one.function != nullptr;
}

// By op: whether no element is negative, whatever the inputs are.
class Signs {
 public:
  explicit Signs(const Chain& body) {
    for (const Op& op : body.ops()) not_negative_.push_back(NeverNegative(op));
  }
  bool NotNegative(ValueId id) const { return not_negative_[static_cast<size_t>(id)]; }

 private:
  bool All(const Op& op, size_t first = 0) const {
    return std::all_of(op.operands.begin() + static_cast<std::ptrdiff_t>(first), op.operands.end(),
                       [&](ValueId id) { return NotNegative(id); });
  }

  bool NeverNegative(const Op& op) const {
    if (op.type.dtype == DType::kPred) return true;
    switch (op.kind) {
      case OpKind::kInput:
      case OpKind::kConv2d:
      case OpKind::kScaledMatmul:
        return false;
      case OpKind::kScalar:
        return op.scalar >= 0;
      case OpKind::kIota:
      case OpKind::kCompare:
        return true;
      case OpKind::kSelect:
        return All(op, 1);
      case OpKind::kUnary:
      case OpKind::kBinary:
        return ResultNeverNegative(op);
      case OpKind::kReduce:
      case OpKind::kScan:
        return !(op.reduce == ReduceKind::kSum && Wraps(op)) && All(op);
      default:
        return All(op);
    }
  }

  static bool Wraps(const Op& op) { return op.type.dtype == DType::kS32; }

  bool ResultNeverNegative(const Op& op) const {
    const bool wraps = Wraps(op);
    switch (TraitsOf(op).sign) {
      case SignRule::kAny:
        return false;
      case SignRule::kNeverNegative:
        return true;
      case SignRule::kNeverNegativeFloat:
        return !wraps;
      case SignRule::kOfAllOperands:
        return !wraps && (IsSquare(op) || All(op));
      case SignRule::kOfOneOperand:
        return !wraps && (NotNegative(op.operands[0]) || NotNegative(op.operands[1]));
      case SignRule::kOfFirstOperand:
        return NotNegative(op.operands[0]);
    }
    return false;
  }

  std::vector<bool> not_negative_;
};

Compound Log1pAt(const Chain& body, ValueId id) {
  const ValueId sum = body.op(id).operands[0];
  const Op& op = body.op(sum);
  const auto is_plus_one = [&](size_t operand) {
    const Op& one = body.op(BehindSpreads(body, op.operands[operand]));
    return one.kind == OpKind::kScalar && one.scalar == 1;
  };
  const bool minus = IsBinary(op, BinaryKind::kSub);
  if (!minus && !IsBinary(op, BinaryKind::kAdd)) return {};
  if (is_plus_one(0)) return {Compound::kLog1p, {{id, 0}, {sum, 1}}, minus, false};
  if (!minus && is_plus_one(1)) return {Compound::kLog1p, {{id, 0}, {sum, 0}}, false, false};
  return {};
}

// A sum of 1 or -1 and of a tanh or its square, with either sign, except 1 + tanh^2 and its
// negative.
Compound TanhBesideOneAt(const Chain& body, ValueId id) {
  const Op& sum = body.op(id);
  const bool sub = IsBinary(sum, BinaryKind::kSub);
  if (!sub && !IsBinary(sum, BinaryKind::kAdd)) return {};
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (!IsOne(body, sum.operands[1 - side])) continue;
    ValueId tanh = sum.operands[side];
    Compound found{Compound::kOnePlusTanh, {{id, side}}, false, false};
    if (IsSquare(body.op(tanh))) {
      found.function = Compound::kOneMinusTanhSquare;
      found.path.push_back({tanh, 0});
      tanh = body.op(tanh).operands[0];
    }
    if (!IsUnary(body.op(tanh), UnaryKind::kTanh)) continue;
    found.path.push_back({tanh, 0});
    const bool minus_one =
        (body.op(BehindSpreads(body, sum.operands[1 - side])).scalar < 0) != (sub && side == 0);
    const bool minus_tanh = sub && side == 1;
    found.negative = minus_one;
    const bool opposite = minus_one != minus_tanh;
    if (found.function == Compound::kOnePlusTanh) {
      found.minus = opposite;
    } else if (!opposite) {
      continue;
    }
    return found;
  }
  return {};
}

class Demands {
 public:
  Demands(const Chain& body, bool for_codes)
      : body_(body),
        for_codes_(for_codes),
        signs_(body),
        of_(body.ops().size()),
        beside_one_(body.ops().size()) {
    for (const ChainOutput& output : body.outputs()) Ask(output.value, OfStored(output.value));
    for (const Op& op : body.ops()) AskDivisorsOfCodes(op);
    for (size_t id = body.ops().size(); id-- > 0;) AskOperands(static_cast<ValueId>(id));
  }

  Precision Of(ValueId id) const {
    const Demand demand = of_[static_cast<size_t>(id)];
    if (demand >= Demand::kClose) return Precision::kExact;
    if (beside_one_[static_cast<size_t>(id)]) {
      return demand == Demand::kNone ? Precision::kBesideOne : Precision::kExact;
    }
    return IsFastEnough(body_.op(id), demand) ? Precision::kFast : Precision::kExact;
  }

 private:
  void Ask(ValueId id, Demand demand) {
    Demand& asked = of_[static_cast<size_t>(id)];
    asked = std::max(asked, demand);
  }

  // Whether the fast form is exact enough for results of 16 bits or fewer.
  bool IsFastEnough(const Op& op, Demand demand) const {
    if (op.kind != OpKind::kUnary && op.kind != OpKind::kBinary) return true;
    const bool coarse = demand <= Demand::kCoarse;
    switch (TraitsOf(op).fast_for) {
      case FastFor::kAll:
        return true;
      case FastFor::kBF16:
        return coarse;
      case FastFor::kBF16OfNarrow:
        return coarse && IsStoredNarrow(op.operands[0]);
      case FastFor::kNone:
        return false;
    }
    return false;
  }

  Demand OfStored(ValueId id) const {
    const DType dtype = body_.op(id).type.dtype;
    if (dtype == DType::kF32 && !for_codes_) return Demand::kExact;
    return dtype == DType::kF16 || dtype == DType::kF32 ? Demand::kFast : Demand::kCoarse;
  }

  // Whether the value has 16 bits: the logarithms of its neighbours of 1 are not small.
  bool IsStoredNarrow(ValueId id) const {
    const Op& op = body_.op(BehindSpreads(body_, id));
    if (op.kind == OpKind::kCast && op.type.dtype == DType::kF32) {
      return IsStoredNarrow(op.operands[0]);
    }
    return (op.kind == OpKind::kInput || op.kind == OpKind::kCast) && IsNarrow(op.type.dtype);
  }

  void AskDivisorsOfCodes(const Op& cast) {
    if (cast.kind != OpKind::kCast || !IsCode(cast.type.dtype)) return;
    const Op& mul = body_.op(BehindSpreads(body_, cast.operands[0]));
    if (!IsBinary(mul, BinaryKind::kMul)) return;
    for (const ValueId operand : mul.operands) {
      const ValueId id = BehindSpreads(body_, operand);
      const Op& op = body_.op(id);
      const bool quotient = IsBinary(op, BinaryKind::kDiv) || IsUnary(op, UnaryKind::kReciprocal);
      if (quotient && op.type.dims != mul.type.dims) Ask(id, Demand::kClose);
    }
  }

  void AskOperands(ValueId id) {
    const Op& op = body_.op(id);
    const auto index = static_cast<size_t>(id);
    if (beside_one_[index]) {
      if (IsSquare(op)) {
        beside_one_[static_cast<size_t>(op.operands[0])] = true;
      } else {
        Ask(op.operands[0], Demand::kClose);
      }
    }
    const Demand demand = of_[index];
    if (demand == Demand::kNone) return;
    // log1p of a tanh, an erf or a square of them: no sum is rounded, which would hide their
    // errors.
    if (IsUnary(op, UnaryKind::kLog)) {
      const Compound log1p = Log1pAt(body_, id);
      if (log1p.function != Compound::kNone) {
        const auto& [sum, operand] = log1p.path.back();
        const ValueId x = body_.op(sum).operands[operand];
        if (IsBoundedByOne(body_, x)) Ask(x, Demand::kClose);
      }
    }
    const Demand of_operands = OfOperands(op, demand);
    for (const ValueId operand : op.operands) {
      if (demand != Demand::kExact && IsBesideOne(op, operand)) {
        beside_one_[static_cast<size_t>(operand)] = true;
      } else if (demand != Demand::kExact && IsExpBesidePredicates(op, operand)) {
        Ask(operand, Demand::kFast);
      } else {
        Ask(operand, of_operands);
      }
    }
  }

  // As in the gradient of a cross entropy, exp(x) - [x is the label's]. Only an exponential near 1
  // cancels there, whose operand is small: then the approximate form errs as little as the exact.
  bool IsExpBesidePredicates(const Op& op, ValueId operand) const {
    if (!IsBinary(op, BinaryKind::kAdd) && !IsBinary(op, BinaryKind::kSub)) return false;
    return IsUnary(body_.op(operand), UnaryKind::kExp) &&
           std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId other) { return IsOfPredicates(body_, other); });
  }

  bool IsBesideOne(const Op& op, ValueId operand) const {
    if (!IsBinary(op, BinaryKind::kAdd) && !IsBinary(op, BinaryKind::kSub)) return false;
    return IsBoundedByOne(body_, operand) &&
           std::any_of(op.operands.begin(), op.operands.end(),
                       [&](ValueId other) { return IsOne(body_, other); });
  }

  Demand OfOperands(const Op& op, Demand demand) const {
    if (SumsAboutLargest(body_, op)) return Demand::kFast;
    if (demand == Demand::kExact) return demand;
    const Demand finer = std::max(demand, Demand::kFast);
    switch (op.kind) {
      case OpKind::kCast:
        return HoldsFloats(op.type.dtype) ? demand : Demand::kClose;
      case OpKind::kSelect:
      case OpKind::kBroadcast:
      case OpKind::kTranspose:
      case OpKind::kReshape:
      case OpKind::kSlice:
      case OpKind::kConcat:
      case OpKind::kGather:
      case OpKind::kScatter:
      case OpKind::kWindow:
        return demand;
      case OpKind::kReduce:
        return op.reduce == ReduceKind::kMax || op.reduce == ReduceKind::kMin ? demand : finer;
      case OpKind::kMatmul:
      case OpKind::kScan:
        return finer;
      case OpKind::kUnary:
      case OpKind::kBinary:
        return OfComputed(op, demand, finer);
      default:
        return Demand::kClose;
    }
  }

  Demand OfComputed(const Op& op, Demand demand, Demand finer) const {
    switch (TraitsOf(op).errors) {
      case ErrorRule::kPassed:
        return IsSquare(op) ? finer : demand;
      case ErrorRule::kGrownLittle:
        return finer;
      case ErrorRule::kMayCancel: {
        const bool cancels =
            !signs_.NotNegative(op.operands[0]) || !signs_.NotNegative(op.operands[1]);
        return cancels ? Demand::kClose : demand;
      }
      case ErrorRule::kGrown:
        return Demand::kClose;
    }
    return Demand::kClose;
  }

  const Chain& body_;
  const bool for_codes_;
  const Signs signs_;
  std::vector<Demand> of_;
  std::vector<bool> beside_one_;  // asked for by an addition of 1 or a subtraction from it
};

// Whether all ops inside `compound` have `precision`.
bool InsideIs(const Compound& compound, const std::vector<Precision>& precisions,
              Precision precision) {
  return std::all_of(compound.path.begin() + 1, compound.path.end(), [&](const auto& step) {
    return precisions[static_cast<size_t>(step.first)] == precision;
  });
}

// Marks what is a part of a compound and read by nothing else.
void TakeTanhs(const Chain& body, std::vector<Precision>* precisions) {
  std::vector<int> readers(body.ops().size());
  for (const Op& op : body.ops()) {
    const std::set<ValueId> read(op.operands.begin(), op.operands.end());
    for (const ValueId operand : read) ++readers[static_cast<size_t>(operand)];
  }
  for (size_t id = 0; id < readers.size(); ++id) {
    const Compound compound = TanhBesideOneAt(body, static_cast<ValueId>(id));
    if (compound.function == Compound::kNone) continue;
    if (!InsideIs(compound, *precisions, Precision::kBesideOne)) continue;
    const auto inside = compound.path.begin() + 1;
    const bool alone = std::all_of(inside, compound.path.end(), [&](const auto& step) {
      return readers[static_cast<size_t>(step.first)] == 1;
    });
    if (!alone) continue;
    for (auto step = inside; step != compound.path.end(); ++step) {
      (*precisions)[static_cast<size_t>(step->first)] = Precision::kTaken;
    }
  }
}

std::atomic<int64_t> computed_precisions{0};

template <bool for_codes>
struct KeptPrecisions {
  explicit KeptPrecisions(const Chain& body) {
    computed_precisions.fetch_add(1, std::memory_order_relaxed);
    const Demands demands(body, for_codes);
    list.reserve(body.ops().size());
    for (size_t id = 0; id < body.ops().size(); ++id) {
      list.push_back(demands.Of(static_cast<ValueId>(id)));
    }
    TakeTanhs(body, &list);
  }
  std::vector<Precision> list;
};

}  // namespace

const std::vector<Precision>& PrecisionsOf(const Chain& body, bool for_codes) {
  return for_codes ? body.Once<KeptPrecisions<true>>().list
                   : body.Once<KeptPrecisions<false>>().list;
}

int64_t ComputedPrecisions() { return computed_precisions.load(std::memory_order_relaxed); }

Compound CompoundAt(const Chain& body, const std::vector<Precision>& precisions, ValueId id) {
  if (IsUnary(body.op(id), UnaryKind::kLog)) return Log1pAt(body, id);
  const Compound tanh = TanhBesideOneAt(body, id);
  const bool taken =
      tanh.function != Compound::kNone && InsideIs(tanh, precisions, Precision::kTaken);
  return taken ? tanh : Compound();
}

const DeviceForm& FormOf(const OpTraits& traits, Precision precision) {
  if (precision == Precision::kExact) return traits.exact;
  // What a compound takes may still be computed by itself, where units hand it over.
  const bool beside = precision != Precision::kFast && traits.beside_one.function != nullptr;
  return beside ? traits.beside_one : traits.fast;
}

std::vector<bool> SubtractsAlone(const Chain& body, bool inputs) {
  const auto is_product = [&](ValueId id) {
    while (IsView(body.op(id)) ||
           (body.op(id).kind == OpKind::kCast && body.op(id).type.dtype == DType::kF32)) {
      id = body.op(id).operands[0];
    }
    const Op& op = body.op(id);
    return IsSquare(op) || IsBinary(op, BinaryKind::kMul) || IsBinary(op, BinaryKind::kDiv) ||
           IsUnary(op, UnaryKind::kNeg) || (inputs && op.kind == OpKind::kInput);
  };
  std::vector<bool> alone(body.ops().size()), below(body.ops().size());
  for (size_t id = body.ops().size(); id-- > 0;) {
    const Op& op = body.ops()[id];
    alone[id] = below[id] && op.type.dtype != DType::kS32 && IsBinary(op, BinaryKind::kSub) &&
                std::any_of(op.operands.begin(), op.operands.end(), is_product);
    const bool exponential = IsUnary(op, UnaryKind::kExp) || IsUnary(op, UnaryKind::kExpm1);
    const bool passes = IsView(op) || op.kind == OpKind::kCast || op.kind == OpKind::kSelect ||
                        op.kind == OpKind::kBinary || IsUnary(op, UnaryKind::kNeg);
    if (!exponential && !(below[id] && passes)) continue;
    for (const ValueId operand : op.operands) below[static_cast<size_t>(operand)] = true;
  }
  return alone;
}

double MeanShare(int64_t count) {
  int bits = 0;
  while (bits < 62 && count > int64_t{1} << bits) ++bits;
  return std::ldexp(1.0, -bits);
}

}  // namespace sinter
