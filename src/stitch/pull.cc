#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "src/stitch/index.h"

namespace sinter {
namespace {

int64_t Product(const std::vector<Dim>& dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= dims[i].value;
  return product;
}

Position PullBroadcast(const TensorType& operand, const Position& at) {
  Position from(operand.dims.size());
  const size_t skipped = at.size() - operand.dims.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (operand.dims[i] != Dim::Constant(1)) from[i] = at[skipped + i];
  }
  return from;
}

// Neighbouring dims on one side of a reshape, and their elements.
struct Side {
  const std::vector<Dim>& dims;
  size_t begin, end;
  int64_t span = 1;
  bool symbolic = false;

  bool Exhausted() const { return begin == 0; }
  void Take() {
    if (Exhausted()) return;
    const Dim dim = dims[--begin];
    symbolic |= dim.symbolic;
    if (!dim.symbolic) span *= dim.value;
  }
  bool Spans(const Side& o) const { return span == o.span && symbolic == o.symbolic; }
};

struct Group {
  size_t to_begin, to_end, from_begin, from_end;
};

// Groups of dims with equally many elements on both sides, from the right.
std::vector<Group> GroupsOf(const std::vector<Dim>& to, const std::vector<Dim>& from) {
  std::vector<Group> groups;
  size_t t = to.size(), f = from.size();
  while (t > 0 || f > 0) {
    Side a{to, t, t}, b{from, f, f};
    a.Take();
    b.Take();
    while (!a.Spans(b)) {
      const bool a_next =
          b.Exhausted() || (!a.Exhausted() && a.span < b.span) || (a.span == b.span && !a.symbolic);
      (a_next ? a : b).Take();
    }
    groups.push_back({a.begin, t, b.begin, f});
    t = a.begin;
    f = b.begin;
  }
  return groups;
}

void PullGroup(const Group& g, const std::vector<Dim>& to, const std::vector<Dim>& from,
               const Position& at, Position& result, IndexSpace& space) {
  Index linear;
  for (size_t i = g.to_begin; i < g.to_end; ++i) {
    linear = linear.Plus(at[i].Times(Product(to, i + 1, g.to_end)));
  }
  for (size_t i = g.from_end; i > g.from_begin; --i) {
    const bool first = i - 1 == g.from_begin;
    if (from[i - 1] == Dim::Constant(1)) continue;
    bool rest_is_one = true;  // all dims before it have extent 1
    for (size_t j = g.from_begin; j + 1 < i; ++j) rest_is_one &= from[j] == Dim::Constant(1);
    if (first || rest_is_one) {
      result[i - 1] = linear;
      return;
    }
    result[i - 1] = space.Remainder(linear, from[i - 1].value);
    linear = space.Quotient(linear, from[i - 1].value);
  }
}

Position Reshaped(const std::vector<Dim>& to, const std::vector<Dim>& from, const Position& at,
                  IndexSpace& space) {
  Position result(from.size());
  for (const Group& g : GroupsOf(to, from)) PullGroup(g, to, from, at, result, space);
  return result;
}

// Ids have the leading axes of the gathered values, and of the scattered rows.
Position PullIds(const TensorType& ids, const Position& at) {
  return Position(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(ids.dims.size()));
}

// The element of operand `number` of a product in factor `k` of element `at`.
Position PullFactor(const Chain& body, const Op& op, size_t number, const Position& at,
                    const Index& k) {
  const size_t rank = body.op(op.operands[number]).type.dims.size();
  const Index& row = at[at.size() - 2];
  const Index& column = at[at.size() - 1];
  Position from;
  if (rank == at.size()) from.assign(at.begin(), at.end() - 2);
  const bool transposed = number == 0 ? op.transpose_a : op.transpose_b;
  if (number == 0) {
    from.push_back(transposed ? k : row);
    from.push_back(transposed ? row : k);
  } else {
    from.push_back(transposed ? column : k);
    from.push_back(transposed ? k : column);
  }
  return from;
}

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

// The bounds of any value of the type.
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
    case OpKind::kCast:
      return OfCast(operand(0), body_.op(op.operands[0]).type.dtype, op.type.dtype);
    case OpKind::kBinary:
      return Held(OfBinary(op.binary, operand(0), operand(1)), op.type.dtype);
    case OpKind::kUnary:
      if (op.unary != UnaryKind::kRelu) return unknown;
      return OfBinary(BinaryKind::kMax, operand(0), {0, 0, false});
    default:
      return IsView(op) ? operand(0) : unknown;
  }
}

}  // namespace

IndexVar ReadOfIds(const Chain& body, const Op& op, const Position& at, IndexSpace& space) {
  const auto axis = static_cast<size_t>(std::max(op.axis, 0));
  const Dim extent = body.op(op.operands[0]).type.dims[axis];
  const ValueId ids = op.operands[1];
  return space.Read(ids, PullIds(body.op(ids).type, at), extent.symbolic ? 0 : extent.value);
}

Position PullPosition(const Chain& body, const Op& op, size_t number, const Position& at,
                      IndexSpace& space) {
  const TensorType& operand = body.op(op.operands[number]).type;
  switch (op.kind) {
    case OpKind::kBroadcast:
      return PullBroadcast(operand, at);
    case OpKind::kTranspose: {
      Position from(at.size());
      for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(op.axes[i])] = at[i];
      return from;
    }
    case OpKind::kReshape:
      return Reshaped(op.type.dims, operand.dims, at, space);
    case OpKind::kSlice: {
      Position from(at.size());
      for (size_t i = 0; i < at.size(); ++i) {
        from[i] = at[i].Times(op.steps[i]).Plus(op.starts[i]);
      }
      return from;
    }
    case OpKind::kConcat: {
      const auto axis = static_cast<size_t>(op.axis);
      int64_t start = 0;
      for (size_t i = 0; i < number; ++i) start += body.op(op.operands[i]).type.dims[axis].value;
      Position from = at;
      from[axis] = at[axis].Plus(-start);
      return from;
    }
    case OpKind::kGather: {
      if (number == 1) return PullIds(operand, at);
      const size_t behind = operand.dims.size() - static_cast<size_t>(op.axis) - 1;
      Position from(at.begin(), at.begin() + op.axis);
      from.push_back(Index::Of(ReadOfIds(body, op, at, space)));
      from.insert(from.end(), at.end() - static_cast<std::ptrdiff_t>(behind), at.end());
      return from;
    }
    case OpKind::kScatter:
      return number == 1 ? PullIds(operand, at) : at;
    case OpKind::kRandom:  // a number for each index of the leading dims
      return {at.begin(), at.begin() + static_cast<std::ptrdiff_t>(operand.dims.size())};
    case OpKind::kWindow: {
      if (number == 1) return Position();
      const WindowPixel pixel = PixelOf(op, at);
      return {at[0], space.Nearest(pixel.row, operand.dims[1].value),
              space.Nearest(pixel.column, operand.dims[2].value), at[5]};
    }
    default:  // element-wise; an operand of rank 0 spreads
      return operand.dims.empty() ? Position() : at;
  }
}

Position ReshapedPosition(const std::vector<Dim>& to, const std::vector<Dim>& from,
                          const Position& at, IndexSpace& space) {
  return Reshaped(to, from, at, space);
}

WindowPixel PixelOf(const Op& window, const Position& at) {
  const Conv2d& conv = window.conv;
  const auto along = [&](size_t axis) {
    return at[1 + axis]
        .Times(conv.strides[axis])
        .Plus(at[3 + axis].Times(conv.dilations[axis]))
        .Plus(-conv.pads[2 * axis]);
  };
  return {along(0), along(1)};
}

Position PullReduced(const Chain& body, const Op& op, size_t number, const Position& at, IndexVar k,
                     IndexSpace& space) {
  if (op.kind == OpKind::kMatmul) return PullFactor(body, op, number, at, Index::Of(k));
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  std::vector<int64_t> extents;
  for (int32_t axis : op.axes) extents.push_back(dims[static_cast<size_t>(axis)].value);
  const Position reduced = space.Box(k, extents);
  const size_t rank = dims.size();
  Position from(rank);
  size_t kept = 0, taken = 0;
  for (size_t i = 0; i < rank; ++i) {
    const bool is_reduced =
        std::find(op.axes.begin(), op.axes.end(), static_cast<int32_t>(i)) != op.axes.end();
    from[i] = is_reduced ? reduced[taken++] : at[kept];
    if (!is_reduced || op.keepdims) ++kept;
  }
  return from;
}

Index LinearIndex(const std::vector<Dim>& dims, const Position& at) {
  Index linear;
  for (size_t i = 0; i < dims.size(); ++i) {
    linear = linear.Plus(at[i].Times(Product(dims, i + 1, dims.size())));
  }
  return linear;
}

bool NamesAPlace(const Chain& body, const Op& gather) {
  const Dim extent = body.op(gather.operands[0]).type.dims[static_cast<size_t>(gather.axis)];
  const ValueId ids = gather.operands[1];
  if (extent.symbolic || !IsInteger(body.op(ids).type.dtype)) return false;
  const Bounds bounds = BoundsFinder(body).Of(ids);
  return bounds.least >= 0 && bounds.most <= static_cast<double>(extent.value - 1);
}

}  // namespace sinter
