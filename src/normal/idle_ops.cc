#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "src/normal/rules.h"

namespace sinter {
namespace {

bool IsWidening(const NormalGraph& graph, const Op& op) {
  return op.kind == OpKind::kCast && op.type.dtype == DType::kF32 &&
         IsFloat(graph.type(op.operands[0]).dtype);
}

// Whether the reference holds a value in the precision of its dtype: then a cast to that changes
// nothing. `exact`: of the operands.
bool IsExact(const Op& op, const std::vector<bool>& exact) {
  const auto all = [&](size_t first) {
    return std::all_of(op.operands.begin() + static_cast<std::ptrdiff_t>(first), op.operands.end(),
                       [&](ValueId id) { return exact[static_cast<size_t>(id)]; });
  };
  switch (op.kind) {
    case OpKind::kInput:
    case OpKind::kScalar:
    case OpKind::kCast:
      return true;
    case OpKind::kBroadcast:
    case OpKind::kTranspose:
    case OpKind::kReshape:
    case OpKind::kSlice:
    case OpKind::kConcat:
    case OpKind::kGather:
    case OpKind::kWindow:
      return all(0);
    case OpKind::kScatter:  // ids do not count
      return exact[static_cast<size_t>(op.operands[0])] &&
             exact[static_cast<size_t>(op.operands[2])];
    case OpKind::kUnary:
      return (op.unary == UnaryKind::kNeg || op.unary == UnaryKind::kAbs ||
              op.unary == UnaryKind::kRelu) &&
             all(0);
    default:
      return false;
  }
}

// The value below a cast that changes nothing; -1 where it changes something.
ValueId BelowIdleCast(const NormalGraph& graph, const Op& cast, const std::vector<bool>& exact) {
  ValueId below = cast.operands[0];
  while (IsWidening(graph, graph.op(below))) below = graph.op(below).operands[0];
  for (const ValueId candidate : {cast.operands[0], below}) {
    const bool same = graph.type(candidate).dtype == cast.type.dtype;
    const auto at = static_cast<size_t>(candidate);
    if (same && at < exact.size() && exact[at]) return candidate;
  }
  return -1;
}

bool IsWhole(const NormalGraph& graph, const Op& slice) {
  return slice.type == graph.type(slice.operands[0]);
}

// `outer` of `inner`, two slices, as one.
ValueId JoinSlices(NormalGraph& graph, const Op& outer, const Op& inner) {
  Op both = outer;
  both.operands = inner.operands;
  for (size_t i = 0; i < both.starts.size(); ++i) {
    both.starts[i] = inner.starts[i] + outer.starts[i] * inner.steps[i];
    both.steps[i] = inner.steps[i] * outer.steps[i];
  }
  return graph.Add(std::move(both));
}

ValueId JoinTransposes(NormalGraph& graph, const Op& outer, const Op& inner) {
  std::vector<int32_t> axes;
  for (const int32_t axis : outer.axes) axes.push_back(inner.axes[static_cast<size_t>(axis)]);
  if (std::is_sorted(axes.begin(), axes.end())) return inner.operands[0];
  return graph.AddTranspose(inner.operands[0], std::move(axes));
}

// Whether a transpose moves axes of extent 1 alone.
bool MovesOnes(const NormalGraph& graph, const Op& transpose) {
  int32_t last = -1;
  for (const int32_t axis : transpose.axes) {
    if (graph.type(transpose.operands[0]).dims[static_cast<size_t>(axis)] == Dim::Constant(1)) {
      continue;
    }
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// What a view can be replaced by; the view itself where it has its use.
ValueId WithoutIdleView(NormalGraph& graph, ValueId id) {
  const Op& op = graph.op(id);
  const ValueId below = op.operands[0];
  if (op.type == graph.type(below) && op.kind != OpKind::kTranspose && op.kind != OpKind::kSlice) {
    return below;
  }
  const Op& inner = graph.op(below);
  switch (op.kind) {
    case OpKind::kReshape:
    case OpKind::kBroadcast:
      if (inner.kind != op.kind) return id;
      if (op.type == graph.type(inner.operands[0])) return inner.operands[0];
      return graph.AddView(op.kind, inner.operands[0], op.type.dims);
    case OpKind::kTranspose:
      if (std::is_sorted(op.axes.begin(), op.axes.end())) return below;
      if (inner.kind == OpKind::kTranspose) return JoinTransposes(graph, op, inner);
      if (MovesOnes(graph, op)) return graph.AddView(OpKind::kReshape, below, op.type.dims);
      return id;
    case OpKind::kSlice:
      if (IsWhole(graph, op)) return below;
      return inner.kind == OpKind::kSlice ? JoinSlices(graph, op, inner) : id;
    default:
      return id;
  }
}

// 0 and -0 are two numbers.
bool IsEqual(const Op& a, const Op& b) {
  return a == b && std::signbit(a.scalar) == std::signbit(b.scalar);
}

size_t HashOf(const Op& op) {
  size_t hash = static_cast<size_t>(op.kind);
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * size_t{0x9e3779b97f4a7c15};
    hash ^= hash >> 29;
  };
  for (const ValueId operand : op.operands) mix(static_cast<uint64_t>(operand) + 1);
  mix(static_cast<uint64_t>(op.type.dtype));
  mix(static_cast<uint64_t>(op.unary) << 16 | static_cast<uint64_t>(op.binary) << 8 |
      static_cast<uint64_t>(op.reduce));
  for (const Dim dim : op.type.dims) mix(static_cast<uint64_t>(dim.symbolic ? -1 : dim.value));
  for (const int64_t start : op.starts) mix(static_cast<uint64_t>(start));
  uint64_t scalar = 0;
  std::memcpy(&scalar, &op.scalar, sizeof scalar);
  mix(scalar);
  return hash;
}

}  // namespace

bool IdleOpsOut(NormalGraph& graph) {
  const std::vector<bool> is_result = graph.IsResult();
  const auto may_be_result = [&](ValueId id) {
    if (graph.op(id).operands.empty()) return false;  // a kernel must store it
    return static_cast<size_t>(id) >= is_result.size() || !is_result[static_cast<size_t>(id)];
  };
  std::vector<bool> exact(static_cast<size_t>(graph.size()), false);
  return graph.Rewrite([&](ValueId id) {
    const Op& op = graph.op(id);
    exact[static_cast<size_t>(id)] = IsExact(op, exact);
    ValueId with = id;
    if (op.kind == OpKind::kCast) {
      const ValueId below = BelowIdleCast(graph, op, exact);
      if (below >= 0) with = below;
    } else if (IsView(op)) {
      with = WithoutIdleView(graph, id);
    }
    if (is_result[static_cast<size_t>(id)] && with != id && !may_be_result(with)) return id;
    if (static_cast<size_t>(with) >= exact.size()) {
      exact.resize(static_cast<size_t>(with) + 1, false);
      exact.back() = exact[static_cast<size_t>(id)];
    }
    return with;
  });
}

bool EqualOpsOnce(NormalGraph& graph) {
  const std::vector<bool> is_result = graph.IsResult();
  std::unordered_multimap<size_t, ValueId> known;
  return graph.Rewrite([&](ValueId id) {
    const Op& op = graph.op(id);
    if (op.kind == OpKind::kInput) return id;
    const size_t hash = HashOf(op);
    const auto [first, last] = known.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const bool both =
          is_result[static_cast<size_t>(id)] && is_result[static_cast<size_t>(at->second)];
      if (!both && IsEqual(graph.op(at->second), op)) return at->second;
    }
    known.emplace(hash, id);
    return id;
  });
}

}  // namespace sinter
