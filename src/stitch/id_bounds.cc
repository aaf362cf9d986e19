#include "src/stitch/id_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

namespace sinter {
namespace {

constexpr int kMostDepth = 48;           // of ops below an id
constexpr int64_t kMostExact = 1 << 24;  // integers that f32 holds
constexpr int64_t kRoundings = 1 << 20;  // of f32, in a number: more than a few ops make

double Infinity() { return std::numeric_limits<double>::infinity(); }

// The least and the largest value, infinite where a float may be. A float may be NaN besides.
struct Bounds {
  double least = -Infinity(), most = Infinity();
  bool may_be_nan = true;

  bool finite() const { return std::isfinite(least) && std::isfinite(most); }
};

bool IsInteger(DType dtype) { return dtype == DType::kS32 || dtype == DType::kS64; }

// Of any value of the type.
Bounds All(DType dtype) {
  using S32 = std::numeric_limits<int32_t>;
  using S64 = std::numeric_limits<int64_t>;
  if (dtype == DType::kS32) return {double{S32::min()}, double{S32::max()}, false};
  if (dtype != DType::kS64) return Bounds();
  return {static_cast<double>(S64::min()), static_cast<double>(S64::max()), false};
}

// As the type holds them: an integer that is too large wraps, and a float is rounded, by a kernel
// once or twice; a large one may become infinite, and a small one 0. Doubles do not hold the bounds
// of 64 bits.
Bounds Held(const Bounds& b, DType dtype) {
  if (dtype == DType::kS32) {
    const Bounds all = All(dtype);
    return b.least >= all.least && b.most <= all.most ? b : all;
  }
  if (dtype != DType::kF32) return All(dtype);
  const double largest = std::numeric_limits<float>::max();
  const double smallest = std::numeric_limits<float>::min();
  const double least = b.least - std::abs(b.least) / kRoundings - smallest;
  const double most = b.most + std::abs(b.most) / kRoundings + smallest;
  if (least >= largest || most <= -largest) return Bounds();
  return {least > -largest ? least : -Infinity(), most < largest ? most : Infinity(), b.may_be_nan};
}

Bounds OfBinary(BinaryKind kind, const Bounds& a, const Bounds& b) {
  const bool either = a.may_be_nan || b.may_be_nan;
  const bool nan = either || !a.finite() || !b.finite();  // infinite numbers may make a NaN
  switch (kind) {
    case BinaryKind::kAdd:
      return {a.least + b.least, a.most + b.most, nan};
    case BinaryKind::kSub:
      return {a.least - b.most, a.most - b.least, nan};
    case BinaryKind::kMul: {
      if (!a.finite() || !b.finite()) return Bounds();
      const double all[] = {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most};
      return {*std::min_element(all, all + 4), *std::max_element(all, all + 4), nan};
    }
    case BinaryKind::kMin:
      return {std::min(a.least, b.least), std::min(a.most, b.most), either};
    case BinaryKind::kMax:
      return {std::max(a.least, b.least), std::max(a.most, b.most), either};
    default:
      return Bounds();
  }
}

Bounds OfCast(const Bounds& a, DType from, DType to) {
  if (IsInteger(to) && from == DType::kF32) {  // towards zero, a NaN to 0
    if (to != DType::kS32) return All(to);
    const Bounds all = All(to);
    const auto cut = [&all](double v) {  // what is too large is the largest number
      return std::clamp(std::trunc(v), all.least, all.most);
    };
    const Bounds found{cut(a.least), cut(a.most), false};
    return a.may_be_nan ? Bounds{std::min(0.0, found.least), std::max(0.0, found.most), false}
                        : found;
  }
  if (IsInteger(from) && IsInteger(to)) return Held(a, to);
  const bool exact = a.least >= -kMostExact && a.most <= kMostExact;
  if (IsInteger(from) && to == DType::kF32 && exact) return {a.least, a.most, false};
  return All(to);
}

class BoundsFinder {
 public:
  explicit BoundsFinder(const Chain& body) : body_(body) {}

  Bounds Of(ValueId id, int depth = 0) {
    if (depth > kMostDepth) return All(body_.op(id).type.dtype);
    const auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    const Bounds found = Found(id, depth);
    return known_[id] = found;
  }

 private:
  Bounds Found(ValueId id, int depth);

  const Chain& body_;
  std::map<ValueId, Bounds> known_;
};

Bounds BoundsFinder::Found(ValueId id, int depth) {
  const Op& op = body_.op(id);
  const Bounds unknown = All(op.type.dtype);
  const auto operand = [&](size_t i) { return Of(op.operands[i], depth + 1); };
  switch (op.kind) {
    case OpKind::kScalar:
      return std::isfinite(op.scalar) ? Held({op.scalar, op.scalar, false}, op.type.dtype)
                                      : unknown;
    case OpKind::kIota: {
      const Dim extent = op.type.dims[static_cast<size_t>(op.axis)];
      if (extent.symbolic || static_cast<double>(extent.value) > kMostExact) return unknown;
      return {0, static_cast<double>(std::max<int64_t>(extent.value, 1) - 1), false};
    }
    case OpKind::kReshape:
    case OpKind::kTranspose:
    case OpKind::kSlice:
    case OpKind::kBroadcast:
      return operand(0);
    case OpKind::kCast:
      return OfCast(operand(0), body_.op(op.operands[0]).type.dtype, op.type.dtype);
    case OpKind::kBinary:
      return Held(OfBinary(op.binary, operand(0), operand(1)), op.type.dtype);
    case OpKind::kUnary:
      if (op.unary != UnaryKind::kRelu) return unknown;
      return OfBinary(BinaryKind::kMax, operand(0), {0, 0, false});
    default:
      return unknown;
  }
}

}  // namespace

bool NamesAPlace(const Chain& body, const Op& gather) {
  const Dim extent = body.op(gather.operands[0]).type.dims[static_cast<size_t>(gather.axis)];
  const ValueId ids = gather.operands[1];
  if (extent.symbolic || !IsInteger(body.op(ids).type.dtype)) return false;
  const Bounds bounds = BoundsFinder(body).Of(ids);
  return bounds.least >= 0 && bounds.most <= static_cast<double>(extent.value - 1);
}

}  // namespace sinter
