#include "tests/unit/fusion/stitch/graphs.h"

#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter::testing {

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
  ChainReader r;
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
  for (int i = 0; i < inputs; ++i) keep(r("{f32[$0,$1]}", rows, cols));
  while (r.builder().size() < ops) {
    const size_t kind = pick(20);
    if (static_cast<int>(pick(100)) < products) {
      const ValueId a = take();
      keep(r("value($0) @ value($1).T", a, take()));
    } else if (kind < 9) {
      const ValueId a = take(), b = take();
      keep(r(pick(2) != 0 ? "value($0) - value($1)" : "max(value($0), value($1))", a, b));
    } else if (kind < 13) {
      keep(r("tanh(value($0))", take()));
    } else if (kind < 15) {
      keep(r("sigmoid(value($0))", take()));
    } else {
      r.Name("a", take());
      keep(r(kind < 18 ? "a - spread(mean(a, 1, keep), a)" : "a * spread(mean(a, 0, keep), a)"));
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (uses[i] == 0) r.Out(values[i]);
  }
  return r.Finish();
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
