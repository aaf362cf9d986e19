// Text kinds against closed formulas.
#include "src/reference/evaluator.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::ExpectNear;
using testing::Random;
using testing::RunF64;
using V = std::vector<double>;

constexpr int64_t kRows = 5;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluErf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double Act(const std::string& name, double x) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "silu") return x * Sigmoid(x);
  if (name == "gelu_tanh") return GeluTanh(x);
  if (name == "gelu_erf") return GeluErf(x);
  return x;
}

// Runs `line` on random inputs, unrounded results.
struct Case {
  explicit Case(const std::string& line) {
    const Problem problem = Got(ParseProblem(line));
    const Chain& chain = problem.chain;
    for (int j = 0; j < chain.num_inputs(); ++j) {
      const TensorType& type = chain.input_op(chain.CallerOrder()[j]).type;
      in.push_back(Random(type.dtype, *ElementCount(type.dims, kRows), 10 + j));
    }
    out = RunF64(chain, kRows, in, {.skip_final_cast = true});
    rounded = RunF64(chain, kRows, in);
  }
  std::vector<V> in, out, rounded;
};

// y[m,out] = x W + bias.
V Linear(const V& x, const V& w, const V& bias, int64_t in, int64_t out, bool oi) {
  V y;
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()) / in; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      double sum = bias.empty() ? 0 : bias[j];
      for (int64_t p = 0; p < in; ++p) sum += x[i * in + p] * (oi ? w[j * in + p] : w[p * out + j]);
      y.push_back(sum);
    }
  }
  return y;
}

TEST(Ffn, EqualsItsFormulaInEveryVariant) {
  for (const std::string act : {"identity", "relu", "gelu_tanh", "gelu_erf", "silu"}) {
    for (int bits = 0; bits < 16; ++bits) {
      const bool gated = bits & 1, oi = bits & 2, bias1 = bits & 4, bias2 = bits & 8;
      const std::string line = std::string(gated ? "gated_ffn" : "gemm_chain") +
                               " m=M n=11 k=7 l=9 act=" + act + " layout=" + (oi ? "oi" : "io") +
                               " bias1=" + (bias1 ? "1" : "0") + " bias2=" + (bias2 ? "1" : "0");
      const Case run(line);
      size_t next = 0;
      const auto take = [&](bool wanted) { return wanted ? run.in[next++] : V(); };
      const V a = take(true), w1 = take(true), up = take(gated), b1 = take(bias1),
              b_up = take(gated && bias1);
      const V w2 = take(true), b2 = take(bias2);
      V c = Linear(a, w1, b1, 7, 11, oi);
      for (double& v : c) v = Act(act, v);
      if (gated) {
        const V u = Linear(a, up, b_up, 7, 11, oi);
        for (size_t i = 0; i < c.size(); ++i) c[i] *= u[i];
      }
      const V expected = Linear(c, w2, b2, 11, 9, oi);
      ExpectNear(run.out[0], expected, 1e-7);  // scalars of the activations are f32
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(run.rounded[0][i], reference::RoundTo(DType::kBF16, run.out[0][i]));
      }
    }
  }
}

TEST(Ffn, SingleProductsEqualTheirFormula) {
  const Case one("matmul m=M n=11 k=7 act=silu bias1=1 dtype=f16");
  V c = Linear(one.in[0], one.in[1], one.in[2], 7, 11, true);
  for (double& v : c) v = Act("silu", v);
  ExpectNear(one.out[0], c, 1e-12);
  const Case pair("gate_up m=M n=11 k=7 act=relu layout=io dtype=f32");
  V g = Linear(pair.in[0], pair.in[1], {}, 7, 11, false);
  const V u = Linear(pair.in[0], pair.in[2], {}, 7, 11, false);
  for (size_t i = 0; i < g.size(); ++i) g[i] = std::max(g[i], 0.0) * u[i];
  ExpectNear(pair.out[0], g, 1e-12);
}

V LayerNorm(const V& x, int64_t cols, double eps, const V& gamma, const V& beta) {
  V y;
  for (size_t row = 0; row < x.size(); row += cols) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < cols; ++i) mean += x[row + i] / cols;
    for (int64_t i = 0; i < cols; ++i) var += (x[row + i] - mean) * (x[row + i] - mean) / cols;
    for (int64_t i = 0; i < cols; ++i) {
      const double n = (x[row + i] - mean) / std::sqrt(var + eps);
      y.push_back(gamma.empty() ? n : n * gamma[i] + beta[i]);
    }
  }
  return y;
}

V RmsNorm(const V& x, int64_t cols, double eps, const V& gamma) {
  V y;
  for (size_t row = 0; row < x.size(); row += cols) {
    double square = 0;
    for (int64_t i = 0; i < cols; ++i) square += x[row + i] * x[row + i] / cols;
    for (int64_t i = 0; i < cols; ++i) y.push_back(x[row + i] / std::sqrt(square + eps) * gamma[i]);
  }
  return y;
}

V Softmax(const V& z, int64_t cols) {
  V y;
  for (size_t row = 0; row < z.size(); row += cols) {
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += std::exp(z[row + i]);
    for (int64_t i = 0; i < cols; ++i) y.push_back(std::exp(z[row + i]) / sum);
  }
  return y;
}

TEST(Rows, NormalisationsEqualTheirFormulas) {
  const Case layer("layernorm rows=M cols=33 eps=1e-3");
  ExpectNear(layer.out[0], LayerNorm(layer.in[0], 33, 1e-3, layer.in[1], layer.in[2]), 1e-7);
  const Case plain("layernorm rows=M cols=33 eps=1e-3 affine=0 dtype=f32");
  ExpectNear(plain.out[0], LayerNorm(plain.in[0], 33, 1e-3, {}, {}), 1e-7);
  const Case rms("rmsnorm rows=M cols=33 eps=1e-3 dtype=f16");
  ExpectNear(rms.out[0], RmsNorm(rms.in[0], 33, 1e-3, rms.in[1]), 1e-7);
}

// Attention of one batch and head: `scores` are changed by the row and the key.
template <typename Change>
V Attention(const V& q, const V& k, const V& v, int64_t keys, int64_t dim, const Change& change) {
  V out;
  for (int64_t i = 0; i < static_cast<int64_t>(q.size()) / dim; ++i) {
    V z;
    for (int64_t j = 0; j < keys; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < dim; ++c) sum += q[i * dim + c] * k[j * dim + c];
      z.push_back(change(sum / std::sqrt(static_cast<double>(dim)), i, j));
    }
    const V p = Softmax(z, keys);
    for (int64_t c = 0; c < dim; ++c) {
      double sum = 0;
      for (int64_t j = 0; j < keys; ++j) sum += p[j] * v[j * dim + c];
      out.push_back(sum);
    }
  }
  return out;
}

TEST(Rows, AttentionEqualsItsFormula) {
  constexpr int64_t kHeads = 2, kQueries = 6, kKeys = 7, kDim = 8;
  for (const std::string mask : {"none", "keys", "bias", "causal"}) {
    const Case run("attention rows=M heads=2 queries=6 keys=7 dim=8 mask=" + mask);
    const auto part = [](const V& of, int64_t at, int64_t size) {
      return V(of.begin() + at * size, of.begin() + (at + 1) * size);
    };
    for (int64_t b = 0; b < kRows * kHeads; ++b) {
      const V q = part(run.in[0], b, kQueries * kDim), k = part(run.in[1], b, kKeys * kDim);
      const V v = part(run.in[2], b, kKeys * kDim);
      bool seen = false;  // any key of a batch
      for (int64_t j = 0; mask == "keys" && j < kKeys; ++j) {
        seen = seen || run.in[3][b / kHeads * kKeys + j] != 0;
      }
      if (mask == "keys" && !seen) continue;
      const V want = Attention(q, k, v, kKeys, kDim, [&](double z, int64_t i, int64_t j) {
        if (mask == "bias") return z + run.in[3][(b % kHeads * kQueries + i) * kKeys + j];
        const bool hidden = (mask == "causal" && j > i) ||
                            (mask == "keys" && run.in[3][b / kHeads * kKeys + j] == 0);
        return hidden ? -std::numeric_limits<double>::infinity() : z;
      });
      // Probabilities are rounded to bf16.
      ExpectNear(part(run.out[0], b, kQueries * kDim), want, 0.02);
    }
  }
}

TEST(Rows, SoftmaxesEqualTheirFormulas) {
  const Case soft("softmax rows=M cols=17 scale=0.125");
  V z = soft.in[0];
  for (double& v : z) v *= 0.125;
  ExpectNear(soft.out[0], Softmax(z, 17), 1e-13);
  for (const std::string mask : {"full", "row"}) {
    const Case masked("masked_softmax rows=M cols=17 scale=2 mask=" + mask);
    z = masked.in[0];
    for (size_t i = 0; i < z.size(); ++i) {
      z[i] = 2 * z[i] + masked.in[1][mask == "full" ? i : i % 17];
    }
    ExpectNear(masked.out[0], Softmax(z, 17), 1e-13);
  }
}

TEST(Rows, ResidualChainsEqualTheirFormulas) {
  const Case n5("bias_gelu_residual_layernorm rows=M cols=16 gelu=tanh eps=1e-5");
  V z;
  for (size_t i = 0; i < n5.in[0].size(); ++i) {
    z.push_back(GeluTanh(n5.in[0][i] + n5.in[1][i % 16]) + n5.in[2][i]);
  }
  ExpectNear(n5.out[0], LayerNorm(z, 16, 1e-5, n5.in[3], n5.in[4]), 1e-6);
  const Case n6("residual_rmsnorm rows=M cols=16 eps=1e-6");
  V h;
  for (size_t i = 0; i < n6.in[0].size(); ++i) h.push_back(n6.in[0][i] + n6.in[1][i]);
  ExpectNear(n6.out[0], h, 1e-15);
  ExpectNear(n6.out[1], RmsNorm(h, 16, 1e-6, n6.in[2]), 1e-7);
  EXPECT_EQ(Case("residual_rmsnorm rows=M cols=16 outputs=1").out.size(), 1u);
}

TEST(Rows, ActivationsEqualTheirFormulas) {
  const Case tanh("gelu rows=M cols=9 form=tanh"), erf("gelu rows=M cols=9 form=erf"),
      silu("silu rows=M cols=9");
  V a, b, c, d;
  for (double x : tanh.in[0])
    a.push_back(GeluTanh(x)), b.push_back(GeluErf(x)), c.push_back(x * Sigmoid(x));
  ExpectNear(tanh.out[0], a, 1e-7);
  ExpectNear(erf.out[0], b, 1e-7);
  ExpectNear(silu.out[0], c, 1e-13);
  const Case swiglu("swiglu rows=M cols=6");
  for (int64_t i = 0; i < kRows * 6; ++i) {
    const double g = swiglu.in[0][i / 6 * 12 + i % 6], u = swiglu.in[0][i / 6 * 12 + 6 + i % 6];
    d.push_back(g * Sigmoid(g) * u);
  }
  ExpectNear(swiglu.out[0], d, 1e-13);
}

TEST(Rows, SoftplusEqualsItsFormula) {
  const V x = {0, 1, -1, 30, -30, -80};
  const V y = testing::RunF64(ReadChain("in: f32[6]; out softplus(in)"), 0, {x})[0];
  for (size_t i = 0; i < 6; ++i) {
    const double want = std::log1p(std::exp(x[i]));
    EXPECT_NEAR(y[i], want, 1e-15 * want) << x[i];
  }
}

TEST(Rows, GiveTheValuesOfTheFile) { testing::ExpectValues("composites"); }

TEST(Rows, ClampKeepsTheType) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ChainBuilder b;
  const ValueId narrow = *b.Input({DType::kBF16, {Dim::M()}}),
                whole = *b.Input({DType::kS32, {Dim::M()}}),
                pred = *b.Input({DType::kPred, {Dim::M()}});
  EXPECT_EQ(b.TypeOf(*AddClamp(b, narrow, 0.1, 1)).dtype, DType::kBF16);
  EXPECT_EQ(b.TypeOf(*AddClamp(b, whole, -3, 4)).dtype, DType::kS32);
  const auto message = [](const absl::StatusOr<ValueId>& id) {
    return std::string(id.status().message());
  };
  const int before = b.size();
  const std::string op = absl::StrCat("op ", before, " (clamp): ");
  EXPECT_EQ(message(AddClamp(b, narrow, -kInf, kInf)),
            op + "min is -inf and max is inf: one must be finite");
  EXPECT_EQ(message(AddClamp(b, narrow, nan, 1)), op + "min: value is nan, must be a number");
  EXPECT_EQ(message(AddClamp(b, whole, 0, 0.5)),
            op + "max: value is 0.5, must be an integer in [-2^31, 2^31 - 1] for s32");
  EXPECT_EQ(message(AddClamp(b, pred, 0, 1)),
            op + "x is pred[M], must be f32, f16 or bf16: cast it");
  EXPECT_EQ(b.size(), before);
}

TEST(Rows, RopeRotatesHalves) {
  const Case run("rope rows=M heads=3 dim=8");
  V y;
  for (int64_t i = 0; i < kRows * 24; ++i) {
    const int64_t d = i % 8, half = d % 4, row = i / 24;
    const double t1 = run.in[0][i - d + half], t2 = run.in[0][i - d + half + 4];
    const double c = run.in[1][row * 4 + half], s = run.in[2][row * 4 + half];
    y.push_back(d < 4 ? t1 * c - t2 * s : t2 * c + t1 * s);
  }
  ExpectNear(run.out[0], y, 1e-13);
}

TEST(Rows, RecurrentCellsEqualTheirFormulas) {
  const Case lstm("lstm_cell rows=M hidden=3");
  V h, c;
  for (int64_t i = 0; i < kRows * 3; ++i) {
    const auto gate = [&](int g) { return lstm.in[0][i / 3 * 12 + g * 3 + i % 3]; };
    c.push_back(Sigmoid(gate(1)) * lstm.in[1][i] + Sigmoid(gate(0)) * std::tanh(gate(2)));
    h.push_back(Sigmoid(gate(3)) * std::tanh(c.back()));
  }
  ExpectNear(lstm.out[0], h, 1e-13);
  ExpectNear(lstm.out[1], c, 1e-13);
  const Case gru("gru_cell rows=M hidden=3");
  V y;
  for (int64_t i = 0; i < kRows * 3; ++i) {
    const auto x = [&](int input, int g) { return gru.in[input][i / 3 * 9 + g * 3 + i % 3]; };
    const double r = Sigmoid(x(0, 0) + x(1, 0)), z = Sigmoid(x(0, 1) + x(1, 1));
    y.push_back((1 - z) * std::tanh(x(0, 2) + r * x(1, 2)) + z * gru.in[2][i]);
  }
  ExpectNear(gru.out[0], y, 1e-13);
}

}  // namespace
}  // namespace sinter
