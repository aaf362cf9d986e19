#include "tests/unit/fusion/stitch/graphs.h"

#include "src/chain/composites.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter::testing {

ValueId Graph::Take(absl::StatusOr<ValueId> id) {
  EXPECT_TRUE(id.ok()) << id.status();
  return id.ok() ? *id : 0;
}

ValueId Graph::In(DType dtype, std::vector<int64_t> dims, bool constant) {
  TensorType type{dtype, {}};
  for (int64_t d : dims) type.dims.push_back(d < 0 ? Dim::M() : Dim::Constant(d));
  return Take(builder_.Input(type, {.constant = constant}));
}
ValueId Graph::Const(double value) { return Take(builder_.Scalar(value)); }
ValueId Graph::Un(UnaryKind kind, ValueId a) { return Take(builder_.Unary(kind, a)); }
ValueId Graph::Bin(BinaryKind kind, ValueId a, ValueId b) {
  return Take(builder_.Binary(kind, a, b));
}
ValueId Graph::Cast(ValueId a, DType dtype) { return Take(builder_.Cast(a, dtype)); }
ValueId Graph::Spread(ValueId a, ValueId like) {
  return Take(builder_.Broadcast(a, std::vector<Dim>(builder_.TypeOf(like).dims)));
}
ValueId Graph::Reduce(ReduceKind kind, ValueId a, int axis, bool keepdims) {
  return Take(builder_.Reduce(kind, a, {axis}, keepdims));
}
ValueId Graph::Matmul(ValueId a, ValueId b, bool transpose_b) {
  return Take(builder_.Matmul(a, b, false, transpose_b));
}
void Graph::Out(ValueId a, const OutputOptions& options) { EXPECT_OK(builder_.Output(a, options)); }
Chain Graph::Finish() { return Got(builder_.Finish()); }

Chain AdamOver(const std::vector<int64_t>& sizes) {
  ChainReader r("rate: f32[1]");
  for (int64_t n : sizes) {
    r.Add(
        "w, m, v: f32[$0]; g: bf16[$0]; grad = f32(g); m1 = 0.9 * m + 0.1 * grad;"
        "v1 = 0.999 * v + 0.001 * (grad * grad); step = m1 / (sqrt(v1) + 1e-8) + 0.01 * w;"
        "w1 = w - spread(rate, w) * step; out m1 over m, v1 over v, w1 over w, bf16(w1)",
        n);
  }
  return r.Finish();
}

Chain RandomDag(uint32_t seed, int ops, int64_t rows, int64_t cols, int window, int products) {
  std::mt19937 random(seed);
  const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Graph g;
  std::vector<ValueId> values;
  std::vector<int> uses;
  const auto keep = [&](ValueId id) {
    values.push_back(id);
    uses.push_back(0);
    return id;
  };
  const auto take = [&]() {
    // Recent values more often, so that the graph grows long.
    const size_t recent = std::min(values.size(), static_cast<size_t>(window));
    const size_t i = values.size() - 1 - pick(recent);
    ++uses[i];
    return values[i];
  };
  const int inputs = 2 + static_cast<int>(pick(3));
  for (int i = 0; i < inputs; ++i) keep(g.In(DType::kF32, {rows, cols}));
  while (g.builder().size() < ops) {
    const size_t kind = pick(20);
    if (static_cast<int>(pick(100)) < products) {
      const ValueId a = take();
      keep(g.Matmul(a, take()));
    } else if (kind < 9) {
      const ValueId a = take(), b = take();
      keep(g.Bin(pick(2) != 0 ? BinaryKind::kSub : BinaryKind::kMax, a, b));
    } else if (kind < 13) {
      keep(g.Un(UnaryKind::kTanh, take()));
    } else if (kind < 15) {
      keep(g.Un(UnaryKind::kSigmoid, take()));
    } else if (kind < 18) {
      const ValueId a = take();
      keep(g.Sub(a, g.Spread(g.Mean(a, 1), a)));
    } else {
      const ValueId a = take();
      keep(g.Mul(a, g.Spread(g.Mean(a, 0), a)));
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (uses[i] == 0) g.Out(values[i]);
  }
  return g.Finish();
}

Chain TransformerGlue(int layers, int64_t rows, int64_t hidden) {
  ChainReader r("x: bf16[$0,$1]", rows, hidden);
  for (int layer = 0; layer < layers; ++layer) {
    r.Add(
        "w1, w2: const bf16[$1,$1]; mask: bf16[$0,$1]; gamma, delta: const bf16[$1];"
        "attention = bf16(rmsnorm(x, 1e-6, f32(gamma))) @ w1.T;"
        "h = bf16(softmax(attention * f32(mask), -1, 0.125) + f32(x));"
        "up = bf16(rmsnorm(h, 1e-6, f32(delta))) @ w2.T; x = bf16(gelu_erf(up) + f32(h))",
        rows, hidden);
  }
  r.Add("out x");
  return r.Finish();
}

absl::StatusOr<double> SimpleCosts::LatencyUs(const Chain& body) {
  ++asked_;
  const std::string why = refuse_ ? refuse_(body) : "";
  if (!why.empty()) return absl::FailedPreconditionError(why);
  double bytes = 0;
  const auto count = [&](const TensorType& type) {
    bytes += static_cast<double>(*ElementCount(type.dims, 128) * SizeOf(type.dtype));
  };
  for (int i = 0; i < body.num_inputs(); ++i) count(body.input_op(i).type);
  for (int i = 0; i < body.num_outputs(); ++i) count(body.output_type(i));
  return 2.0 + bytes / 4.64e6;
}

}  // namespace sinter::testing
