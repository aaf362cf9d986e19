#include "tests/support/composed_graphs.h"

#include <utility>
#include <vector>

#include "src/chain/builder.h"

namespace sinter::testing {
namespace {

// A builder whose errors end the test; extent 0 is M.
class Graph {
 public:
  ValueId In(const std::vector<int64_t>& extents, DType dtype) {
    return b_.Input({dtype, Dims(extents)}).value();
  }
  ValueId Wide(ValueId a) { return b_.Cast(a, DType::kF32).value(); }
  ValueId Cast(ValueId a, DType dtype) { return b_.Cast(a, dtype).value(); }
  ValueId Unary(UnaryKind kind, ValueId a) { return b_.Unary(kind, a).value(); }
  // `b` is spread to the dims of `a`.
  ValueId Binary(BinaryKind kind, ValueId a, ValueId b) {
    const std::vector<Dim> dims = b_.TypeOf(a).dims;
    return b_.Binary(kind, a, b_.Broadcast(b, dims).value()).value();
  }
  ValueId Reduce(ReduceKind kind, ValueId a, int32_t axis, bool keepdims = true) {
    return b_.Reduce(kind, a, {axis}, keepdims).value();
  }
  ValueId Reshape(ValueId a, const std::vector<int64_t>& extents) {
    return b_.Reshape(a, Dims(extents)).value();
  }
  ValueId Spread(ValueId a, const std::vector<int64_t>& extents) {
    return b_.Broadcast(a, Dims(extents)).value();
  }
  // Elements [from, to) of an axis.
  ValueId Slice(ValueId a, size_t axis, int64_t from, int64_t to) {
    const std::vector<Dim> dims = b_.TypeOf(a).dims;
    std::vector<int64_t> starts(dims.size());
    std::vector<Dim> limits = dims;
    starts[axis] = from, limits[axis] = Dim::Constant(to);
    return b_.Slice(a, starts, limits).value();
  }
  ValueId Scalar(double value) { return b_.Scalar(value, DType::kF32).value(); }
  ChainBuilder& builder() { return b_; }

  Chain Finish(const std::vector<ValueId>& outputs) {
    for (ValueId output : outputs) b_.Output(output).IgnoreError();
    return b_.Finish().value();
  }

 private:
  static std::vector<Dim> Dims(const std::vector<int64_t>& extents) {
    std::vector<Dim> dims;
    for (int64_t extent : extents) dims.push_back(extent == 0 ? Dim::M() : Dim::Constant(extent));
    return dims;
  }

  ChainBuilder b_;
};

ValueId Softmax(Graph& g, ValueId x, int32_t axis) {
  const ValueId shifted = g.Binary(BinaryKind::kSub, x, g.Reduce(ReduceKind::kMax, x, axis));
  const ValueId e = g.Unary(UnaryKind::kExp, shifted);
  return g.Binary(BinaryKind::kDiv, e, g.Reduce(ReduceKind::kSum, e, axis));
}

}  // namespace

Chain PooledAttention(int64_t batch, int64_t steps, int64_t depth, bool product) {
  Graph g;
  const ValueId t = g.Wide(g.In({batch, steps}, DType::kBF16));
  const ValueId mask = g.Wide(g.In({batch, steps}, DType::kBF16));
  const ValueId v = g.In({batch, steps, depth}, DType::kBF16);
  const ValueId p = Softmax(g, g.Binary(BinaryKind::kAdd, t, mask), 1);
  ValueId pooled = -1;
  if (product) {
    pooled = g.builder().Matmul(g.Reshape(p, {batch, 1, steps}), g.Wide(v)).value();
  } else {
    const ValueId spread = g.Spread(g.Reshape(p, {batch, steps, 1}), {batch, steps, depth});
    pooled = g.Reduce(ReduceKind::kSum, g.Binary(BinaryKind::kMul, spread, g.Wide(v)), 1, false);
  }
  return g.Finish({g.Cast(pooled, DType::kBF16)});
}

Chain TransposedProducts(int64_t batch, int64_t m, int64_t k, int64_t n) {
  Graph g;
  const ValueId a = g.In({batch, k, m}, DType::kF16), b = g.In({batch, k, n}, DType::kF16);
  const ValueId c = g.In({batch, n, k}, DType::kF16);
  const ValueId ab = g.builder().Matmul(a, b, true, false).value();
  const ValueId ac = g.builder().Matmul(a, c, true, true).value();
  return g.Finish({g.Cast(g.Binary(BinaryKind::kAdd, ab, ac), DType::kF16)});
}

Chain NormRope(int64_t rows, int64_t q_heads, int64_t k_heads, int64_t dim) {
  Graph g;
  const int64_t half = dim / 2;
  const ValueId q = g.In({rows, q_heads, dim}, DType::kBF16);
  const ValueId k = g.In({rows, k_heads, dim}, DType::kBF16);
  const ValueId cos = g.Reshape(g.In({rows, half}, DType::kF32), {rows, 1, half});
  const ValueId sin = g.Reshape(g.In({rows, half}, DType::kF32), {rows, 1, half});
  std::vector<ValueId> outputs;
  for (const ValueId narrow : {q, k}) {
    const ValueId x = g.Wide(narrow);
    const ValueId mean = g.Reduce(ReduceKind::kMean, g.Unary(UnaryKind::kSquare, x), 2);
    const ValueId guarded = g.Binary(BinaryKind::kAdd, mean, g.Scalar(1e-6));
    const ValueId y = g.Binary(BinaryKind::kMul, x, g.Unary(UnaryKind::kRsqrt, guarded));
    const ValueId a = g.Slice(y, 2, 0, half), b = g.Slice(y, 2, half, dim);
    const ValueId left = g.Binary(BinaryKind::kSub, g.Binary(BinaryKind::kMul, a, cos),
                                  g.Binary(BinaryKind::kMul, b, sin));
    const ValueId right = g.Binary(BinaryKind::kAdd, g.Binary(BinaryKind::kMul, b, cos),
                                   g.Binary(BinaryKind::kMul, a, sin));
    outputs.push_back(g.Cast(g.builder().Concat({left, right}, 2).value(), DType::kBF16));
  }
  return g.Finish(outputs);
}

Chain BatchNorm(int64_t rows, int64_t columns, double shift) {
  Graph g;
  const ValueId read = g.Wide(g.In({rows, columns}, DType::kBF16));
  const ValueId x = shift == 0 ? read : g.Binary(BinaryKind::kAdd, read, g.Scalar(shift));
  const ValueId gamma = g.In({columns}, DType::kF32), beta = g.In({columns}, DType::kF32);
  const ValueId mean = g.Reduce(ReduceKind::kMean, x, 0);
  const ValueId centred = g.Binary(BinaryKind::kSub, x, mean);
  const ValueId variance = g.Reduce(ReduceKind::kMean, g.Unary(UnaryKind::kSquare, centred), 0);
  const ValueId guarded = g.Binary(BinaryKind::kAdd, variance, g.Scalar(1e-5));
  const ValueId normed = g.Binary(BinaryKind::kMul, centred, g.Unary(UnaryKind::kRsqrt, guarded));
  const ValueId scaled =
      g.Binary(BinaryKind::kAdd, g.Binary(BinaryKind::kMul, normed, gamma), beta);
  const ValueId y = g.Cast(g.Unary(UnaryKind::kRelu, scaled), DType::kBF16);
  return g.Finish({mean, variance, y});
}

Chain BatchNormGradient(int64_t n, int64_t h, int64_t w, int64_t channels) {
  Graph g;
  const auto image = [&] { return g.In({n, h, w, channels}, DType::kBF16); };
  const auto vector = [&] { return g.In({channels}, DType::kF32); };
  const ValueId y = image(), first = image(), second = image(), x = image();
  const ValueId mean = vector(), rstd = vector(), gamma = vector();
  const double share = 1.0 / static_cast<double>(n * h * w);
  ChainBuilder& b = g.builder();
  const ValueId none = g.Spread(b.Scalar(0, DType::kBF16).value(), {n, h, w, channels});
  const ValueId off = b.Compare(CompareKind::kLe, y, none).value();
  const ValueId masked =
      b.Select(off, none, b.Binary(BinaryKind::kAdd, first, second).value()).value();
  const ValueId wide = g.Wide(masked), centred = g.Binary(BinaryKind::kSub, g.Wide(x), mean);
  const auto sum = [&](ValueId a) {
    return b.Reduce(ReduceKind::kSum, a, {0, 1, 2}, false).value();
  };
  const ValueId to_beta = sum(wide), along = sum(g.Binary(BinaryKind::kMul, wide, centred));
  const auto scaled = [&](ValueId a, double by) {
    return g.Binary(BinaryKind::kMul, a, g.Scalar(by));
  };
  const ValueId squared = g.Binary(BinaryKind::kMul, rstd, rstd);
  const ValueId part = g.Binary(BinaryKind::kMul, centred,
                                g.Binary(BinaryKind::kMul, scaled(along, share), squared));
  const ValueId rest =
      g.Binary(BinaryKind::kSub, g.Binary(BinaryKind::kSub, wide, part), scaled(to_beta, share));
  const ValueId to_x = g.Binary(BinaryKind::kMul, rest, g.Binary(BinaryKind::kMul, rstd, gamma));
  return g.Finish(
      {masked, to_beta, g.Binary(BinaryKind::kMul, along, rstd), g.Cast(to_x, DType::kBF16)});
}

Chain IndependentRows(const std::vector<RowExtents>& rows, int64_t elements) {
  Graph g;
  std::vector<ValueId> outputs;
  for (const RowExtents& one : rows) {
    const ValueId x = g.In({one.rows, one.columns}, DType::kF32);
    outputs.push_back(g.Cast(Softmax(g, x, 1), DType::kBF16));
  }
  if (elements > 0) {
    const ValueId x = g.In({elements}, DType::kF32);
    const ValueId one = g.Binary(BinaryKind::kAdd, g.Unary(UnaryKind::kAbs, x), g.Scalar(1));
    outputs.push_back(g.Cast(g.Unary(UnaryKind::kSqrt, one), DType::kBF16));
  }
  return g.Finish(outputs);
}

Chain IndependentUpdates(const std::vector<int64_t>& sizes) {
  Graph g;
  const ValueId step = g.Binary(BinaryKind::kMul, g.In({1}, DType::kF32), g.Scalar(0.5));
  for (const int64_t size : sizes) {
    const ValueId weight = g.In({size}, DType::kF32), momentum = g.In({size}, DType::kF32);
    const ValueId gradient = g.Wide(g.In({size}, DType::kBF16));
    const ValueId kept = g.Binary(BinaryKind::kMul, momentum, g.Scalar(0.75));
    const ValueId next = g.Binary(BinaryKind::kAdd, kept, gradient);
    const ValueId result =
        g.Binary(BinaryKind::kSub, weight, g.Binary(BinaryKind::kMul, next, step));
    for (const auto& [value, place] : {std::make_pair(next, momentum), {result, weight}}) {
      OutputOptions options;
      options.alias = place;
      g.builder().Output(value, options).IgnoreError();
    }
    g.builder().Output(g.Cast(result, DType::kBF16)).IgnoreError();
  }
  return g.builder().Finish().value();
}

Chain WholeNorm(int64_t rows, int64_t columns) {
  Graph g;
  const ValueId x = g.In({rows, columns}, DType::kF32);
  const auto all = [&](ReduceKind kind, ValueId of) {
    return g.builder().Reduce(kind, of, {0, 1}, true).value();
  };
  const ValueId centred = g.Binary(BinaryKind::kSub, x, all(ReduceKind::kMean, x));
  const ValueId variance = all(ReduceKind::kMean, g.Unary(UnaryKind::kSquare, centred));
  const ValueId shifted = g.Binary(BinaryKind::kAdd, variance, g.Scalar(1e-5));
  const ValueId y = g.Binary(BinaryKind::kMul, centred, g.Unary(UnaryKind::kRsqrt, shifted));
  return g.Finish(
      {y, all(ReduceKind::kMax, g.Unary(UnaryKind::kAbs, x)), all(ReduceKind::kSum, x)});
}

Chain WholeBesideColumns(int64_t rows, int64_t columns) {
  Graph g;
  const ValueId x = g.In({rows, columns}, DType::kF32), y = g.In({rows, 1}, DType::kF32);
  const auto over = [&](ReduceKind kind, ValueId of, const std::vector<int32_t>& axes) {
    return g.builder().Reduce(kind, of, axes, true).value();
  };
  return g.Finish({over(ReduceKind::kMax, x, {0}), over(ReduceKind::kMean, x, {0}),
                   g.Binary(BinaryKind::kMul, y, over(ReduceKind::kMean, y, {0, 1}))});
}

}  // namespace sinter::testing
