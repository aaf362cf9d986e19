// Quantisers and scaled products against loops, and the rule of each.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::kInf;
using testing::kNaN;

// The only output, or all of them.
std::vector<std::vector<double>> RunAll(const Chain& chain, int64_t m,
                                        const std::vector<const void*>& inputs) {
  std::vector<const void*> ordered;
  for (const int32_t input : chain.InputOrder())
    ordered.push_back(inputs[static_cast<size_t>(input)]);
  return Got(RunReferenceF64(chain, m, ordered));
}

// ---------------------------------------------------------------- Quantisers

struct Quantizer {
  Granularity granularity = Granularity::kRow;
  double eps = 1e-10, upper_bound = 0;
  bool ue8m0 = false;
  bool s8 = false;
};

struct Quantized {
  std::vector<double> codes, scales;
};

double PowerAbove(double x) {
  double power = 0x1p-126;
  while (power < x) power *= 2;
  return power;
}

// One group of x by the rule, with the e4m3 rounding done by a search over all codes.
double NearestE4M3(double value) {
  if (std::isnan(value)) return value;
  double best = 0;
  int best_code = 0;
  for (int code = 0; code < 0x7f; ++code) {
    const double candidate = E4M3ToF32(static_cast<uint8_t>(code));
    const double now = std::fabs(candidate - std::fabs(value)),
                 was = std::fabs(best - std::fabs(value));
    if (now < was || (now == was && code % 2 == 0 && best_code % 2 == 1)) {
      best = candidate;
      best_code = code;
    }
  }
  return std::isinf(value) ? std::copysign(448, value) : std::copysign(best, value);
}

double NearestS8(double value) {
  if (std::isnan(value)) return 0;
  double low = std::floor(value);
  if (value - low > 0.5 || (value - low == 0.5 && std::fmod(low, 2) != 0)) low += 1;
  return std::min(127.0, std::max(-128.0, low));
}

double ScaleOf(const Quantizer& q, const double* x, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isnan(x[i])) return kNaN;
    most = std::max(most, std::fabs(x[i]));
  }
  if (q.upper_bound != 0 && most > q.upper_bound) most = q.upper_bound;
  const double scale = std::max(most, q.eps) / (q.s8 ? 127 : 448);
  return q.ue8m0 && std::isfinite(scale) ? PowerAbove(scale) : scale;
}

Quantized Quantize(const Quantizer& q, const std::vector<double>& x, int64_t cols) {
  const auto count = static_cast<int64_t>(x.size());
  const int64_t shared = q.granularity == Granularity::kTensor ? count
                         : q.granularity == Granularity::kRow  ? cols
                                                               : 128;
  Quantized result;
  for (int64_t first = 0; first < count; first += shared) {
    const double scale = ScaleOf(q, x.data() + first, shared);
    result.scales.push_back(scale);
    for (int64_t i = first; i < first + shared; ++i) {
      const double at = x[static_cast<size_t>(i)] * (1 / scale);
      result.codes.push_back(q.s8 ? NearestS8(at) : NearestE4M3(at));
    }
  }
  return result;
}

// The chain of the composite, x and scales in f32.
Quantized RunRule(const Quantizer& q, const std::vector<double>& x, int64_t cols) {
  QuantizeSpec spec{.granularity = q.granularity,
                    .codes = q.s8 ? DType::kS8 : DType::kE4M3,
                    .eps = q.eps,
                    .upper_bound = q.upper_bound,
                    .ue8m0 = q.ue8m0};
  ChainReader reader("x: f32[M,$0]", cols);
  const Scaled scaled = Got(AddQuantize(reader.builder(), reader["x"], spec));
  const Chain chain = Finished(reader.builder(), {scaled.codes, scaled.scale});
  const std::vector<float> narrow(x.begin(), x.end());
  const auto out = RunAll(chain, static_cast<int64_t>(x.size()) / cols, {narrow.data()});
  return {out[0], out[1]};
}

void ExpectSame(const std::vector<double>& got, const std::vector<double>& want, double error) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i;
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << i;
    } else {
      EXPECT_LE(std::fabs(got[i] - want[i]), error * std::fabs(want[i])) << i;
    }
  }
}

void ExpectByRule(const Quantizer& q, const std::vector<double>& x, int64_t cols) {
  const Quantized got = RunRule(q, x, cols), want = Quantize(q, x, cols);
  // eps and the bound are f32 in the chain.
  ExpectSame(got.scales, want.scales, 1e-7);
  ExpectSame(got.codes, want.codes, 0);
}

std::vector<double> Normal(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<double> x(count);
  for (double& v : x) v = normal(random);
  return x;
}

std::vector<Quantizer> EveryQuantizer() {
  std::vector<Quantizer> all;
  for (Granularity g : {Granularity::kTensor, Granularity::kRow, Granularity::kGroup}) {
    for (const bool ue8m0 : {false, true}) {
      for (const double bound : {0.0, 1.5}) all.push_back({g, 1e-10, bound, ue8m0, false});
    }
  }
  for (Granularity g : {Granularity::kTensor, Granularity::kRow})
    all.push_back({g, 1e-10, 0, false, true});
  return all;
}

TEST(Quantize, FollowsItsRule) {
  for (const Quantizer& q : EveryQuantizer()) ExpectByRule(q, Normal(7 * 384, 1), 384);
}

TEST(Quantize, FollowsItsRuleAtZeroRowsOutliersAndSubnormals) {
  std::vector<double> x = Normal(6 * 256, 2);
  std::fill(x.begin(), x.begin() + 256, 0.0);  // a zero row
  x[256 + 3] = 1e4;                            // an outlier
  for (int i = 0; i < 256; ++i) x[2 * 256 + static_cast<size_t>(i)] *= 1e-9;
  for (int i = 0; i < 256; ++i) x[3 * 256 + static_cast<size_t>(i)] = i % 2 ? 448 : -448;
  for (const Quantizer& q : EveryQuantizer()) ExpectByRule(q, x, 256);
  const Quantized zero = RunRule({}, std::vector<double>(128, 0.0), 128);
  EXPECT_NEAR(zero.scales[0], 1e-10 / 448, 1e-19);
  EXPECT_EQ(zero.codes[0], 0);
}

// Ties of codes: x / scale is the middle of two, exactly.
TEST(Quantize, RoundsTiesToTheEvenCode) {
  std::vector<double> x(128, 0.0);
  x[0] = 448;  // scale 1
  x[1] = 17;   // between 16 and 18
  x[2] = 19;   // between 18 and 20
  x[3] = -0x1p-10;
  x[4] = 3 * 0x1p-10;
  const Quantized got = RunRule({}, x, 128);
  EXPECT_EQ(got.scales[0], 1);
  EXPECT_EQ(got.codes[1], 16);
  EXPECT_EQ(got.codes[2], 20);
  EXPECT_EQ(got.codes[3], 0);
  EXPECT_EQ(got.codes[4], 2 * 0x1p-9);
  x[0] = 127;
  x[1] = 2.5;
  x[2] = -3.5;
  const Quantized whole = RunRule({.s8 = true}, x, 128);
  EXPECT_EQ(whole.codes[1], 2);
  EXPECT_EQ(whole.codes[2], -4);
}

TEST(Quantize, NaNAndInfinityStayInWhatSharesTheirScale) {
  std::vector<double> x = Normal(4 * 256, 3);
  x[256 + 5] = kNaN;
  x[2 * 256 + 130] = -kInf;
  for (const Quantizer& q : EveryQuantizer()) ExpectByRule(q, x, 256);
  const Quantized rows = RunRule({}, x, 256), clean = RunRule({}, Normal(4 * 256, 3), 256);
  EXPECT_TRUE(std::isnan(rows.scales[1]));
  EXPECT_TRUE(std::isnan(rows.codes[256 + 9]));
  EXPECT_EQ(rows.scales[2], kInf);
  EXPECT_EQ(rows.codes[2 * 256 + 1], 0);
  EXPECT_TRUE(std::isnan(rows.codes[2 * 256 + 130]));
  for (const size_t row : {size_t{0}, size_t{3}}) {
    EXPECT_EQ(rows.scales[row], clean.scales[row]);
    for (size_t i = 0; i < 256; ++i)
      EXPECT_EQ(rows.codes[row * 256 + i], clean.codes[row * 256 + i]);
  }
  const Quantized saturated = RunRule({.upper_bound = 2}, x, 256);
  EXPECT_NEAR(saturated.scales[2], 2.0 / 448, 1e-9);
  EXPECT_EQ(saturated.codes[2 * 256 + 130], -448);
}

TEST(Quantize, ScalesOfUe8m0ArePowersOfTwoAndExactOnesStay) {
  std::vector<double> x(128, 0.0);
  Quantizer q{.ue8m0 = true};
  for (int exponent = -60; exponent <= 60; ++exponent) {
    x[0] = std::ldexp(448.0, exponent);
    q.eps = 1e-30;
    EXPECT_EQ(RunRule(q, x, 128).scales[0], std::ldexp(1.0, exponent));
    x[0] = std::nextafterf(static_cast<float>(x[0]), 1e30f);
    EXPECT_EQ(RunRule(q, x, 128).scales[0], std::ldexp(1.0, exponent + 1));
  }
}

TEST(Quantize, AStaticScaleIsGiven) {
  ChainReader reader(
      "x: f32[M,8]; given: f32[]; codes, scale = quantize(x, granularity=static, scale=given)");
  EXPECT_EQ(reader["scale"], reader["given"]);
  reader.Add("out codes");
  const Chain chain = reader.Finish();
  const std::vector<float> in = {0, 0.5f, -0.26f, 1000, -1000, 0.125f, 1e-9f, 112};
  const float scale = 0.25f;
  const auto out = RunAll(chain, 1, {in.data(), &scale});
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[0][i], NearestE4M3(in[i] / scale));
}

// fp8 loses at most half a step: 2^-4 of a normal value, 2^-10 scales of a small one.
TEST(Quantize, DequantisedValuesAreWithinHalfAStep) {
  const std::vector<double> x = Normal(16 * 512, 4);
  for (const Quantizer& q : EveryQuantizer()) {
    if (q.upper_bound != 0 || q.s8) continue;
    const Quantized got = RunRule(q, x, 512);
    const size_t shared = got.codes.size() / got.scales.size();
    for (size_t i = 0; i < x.size(); ++i) {
      const double scale = got.scales[i / shared];
      const double half = std::max(0x1p-4 * std::fabs(x[i]), 0x1p-10 * scale);
      EXPECT_LE(std::fabs(got.codes[i] * scale - x[i]), half * (1 + 1e-6));
    }
  }
}

// ---------------------------------------------------------------- Scaled products

struct Product {
  int64_t m, n, k;
  std::vector<Dim> dims_a, dims_w;  // of the scales
  bool s8 = false;
  bool turned = false;  // scales lie along M, and along N
};

int64_t Extent(Dim dim, int64_t m) { return dim.At(m); }

// The value of a scale [rows', groups'] of `dims` that element (row, k) has.
double ScaleAt(const std::vector<float>& scale, const std::vector<Dim>& dims, int64_t m,
               int64_t rows, int64_t row, int64_t k, bool turned) {
  if (dims.empty()) return scale[0];
  const int64_t extent = Extent(dims[0], m), groups = Extent(dims[1], m);
  const int64_t i = extent == 1 ? 0 : extent == rows ? row : row / 128;
  const int64_t g = groups == 1 ? 0 : k / 128;
  return scale[static_cast<size_t>(turned ? g * extent + i : i * groups + g)];
}

std::vector<Stride> StridesOf(const std::vector<Dim>& dims, bool turned) {
  if (!turned || dims.empty()) return {};
  return {{1, 0}, dims[0].symbolic ? Stride{1, 1} : Stride{dims[0].value, 0}};
}

struct Data {
  std::vector<uint8_t> a, w;
  std::vector<float> scale_a, scale_w;
};

double Decoded(uint8_t code, bool s8) {
  return s8 ? static_cast<int8_t>(code) : static_cast<double>(E4M3ToF32(code));
}

Data RandomData(const Product& p) {
  std::mt19937 random(5);
  const auto codes = [&](int64_t count) {
    std::vector<uint8_t> result(static_cast<size_t>(count));
    for (uint8_t& code : result) {
      do code = static_cast<uint8_t>(random());
      while (!p.s8 && (code & 0x7f) == 0x7f);
    }
    return result;
  };
  const auto scales = [&](const std::vector<Dim>& dims) {
    int64_t count = 1;
    for (Dim dim : dims) count *= dim.At(p.m);
    std::vector<float> result(static_cast<size_t>(count));
    for (float& v : result) v = 0.5f + static_cast<float>(random() % 1000) / 1000;
    return result;
  };
  return {codes(p.m * p.k), codes(p.n * p.k), scales(p.dims_a), scales(p.dims_w)};
}

std::vector<double> Naive(const Product& p, const Data& d) {
  std::vector<double> y;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        sum += Decoded(d.a[static_cast<size_t>(i * p.k + k)], p.s8) *
               ScaleAt(d.scale_a, p.dims_a, p.m, p.m, i, k, p.turned) *
               Decoded(d.w[static_cast<size_t>(j * p.k + k)], p.s8) *
               ScaleAt(d.scale_w, p.dims_w, p.m, p.n, j, k, p.turned);
      }
      y.push_back(sum);
    }
  }
  return y;
}

absl::StatusOr<Chain> ChainOf(const Product& p) {
  const DType codes = p.s8 ? DType::kS8 : DType::kE4M3;
  ChainBuilder b;
  const ValueId a = *b.Input({codes, {Dim::M(), C(p.k)}});
  const ValueId w = *b.Input({codes, {C(p.n), C(p.k)}}, {true, {}, ""});
  const ValueId sa = *b.Input({DType::kF32, p.dims_a}, {false, StridesOf(p.dims_a, p.turned), ""});
  const ValueId sw = *b.Input({DType::kF32, p.dims_w}, {true, StridesOf(p.dims_w, p.turned), ""});
  const absl::StatusOr<ValueId> y = b.ScaledMatmul(a, w, sa, sw);
  if (!y.ok()) return y.status();
  EXPECT_TRUE(b.Output(*y).ok());
  return b.Finish();
}

TEST(ScaledMatmul, IsTheSumOfDequantisedProducts) {
  const Dim m = Dim::M(), one = C(1);
  const std::vector<Product> products = {
      {3, 5, 16, {}, {}},
      {7, 9, 48, {m, one}, {C(9), one}},
      {7, 9, 48, {one, one}, {C(9), one}},
      {5, 300, 384, {m, C(3)}, {C(3), C(3)}},
      {5, 300, 384, {m, C(3)}, {C(300), C(3)}},
      {5, 300, 384, {m, C(3)}, {C(300), one}},
      {5, 300, 384, {m, one}, {C(3), C(3)}},
      {5, 300, 384, {}, {one, C(3)}},
      {1, 130, 256, {m, C(2)}, {C(2), C(2)}},
      {4, 130, 128, {m, one}, {C(2), one}},
      {65, 1, 128, {m, one}, {one, one}},
      {6, 40, 256, {m, C(2)}, {one, C(2)}, false, true},
      {6, 300, 256, {m, C(2)}, {C(3), C(2)}, false, true},
      {6, 31, 100, {m, one}, {C(31), one}, true},
      {6, 31, 100, {}, {}, true},
  };
  for (const Product& p : products) {
    const Chain chain = Got(ChainOf(p));
    const Data d = RandomData(p);
    const auto out =
        RunAll(chain, p.m, {d.a.data(), d.w.data(), d.scale_a.data(), d.scale_w.data()});
    const std::vector<double> want = Naive(p, d);
    double rms = 0;
    for (double v : want) rms += v * v / static_cast<double>(want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(out[0][i], want[i], 1e-11 * std::sqrt(rms)) << i << " n " << p.n;
    }
  }
}

TEST(ScaledMatmul, OfS8AndMatmulAreExact) {
  const int64_t k = 1000;
  const Chain chain = ReadChain("a: s8[M,$0]; w: s8[2,$0]; out a @ w.T", k);
  EXPECT_EQ(chain.output_type(0).dtype, DType::kS32);
  const std::vector<int8_t> low(static_cast<size_t>(k), -128);
  std::vector<int8_t> two(static_cast<size_t>(2 * k), -128);
  std::fill(two.begin() + k, two.end(), 127);
  int32_t out[2];
  ASSERT_TRUE(RunReference(chain, 1, {low.data(), two.data()}, {out}).ok());
  EXPECT_EQ(out[0], 128 * 128 * k);
  EXPECT_EQ(out[1], -128 * 127 * k);
}

TEST(ScaledMatmul, NaNStaysInItsRow) {
  const Product p{4, 3, 128, {Dim::M(), C(1)}, {C(3), C(1)}};
  Data d = RandomData(p);
  d.a[128 + 7] = 0x7f;
  d.scale_a[2] = std::numeric_limits<float>::infinity();
  const auto out =
      RunAll(*ChainOf(p), p.m, {d.a.data(), d.w.data(), d.scale_a.data(), d.scale_w.data()});
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(std::isnan(out[0][i]), i / 3 == 1) << i;
    EXPECT_EQ(std::isinf(out[0][i]), i / 3 == 2) << i;
  }
}

// The whole chain of a served FFN equals its steps, each by the loops above.
TEST(ScaledFfn, QuantisesWhatTheSecondProductReads) {
  const Problem problem = *ParseProblem(
      "scaled_gated_ffn m=3 n=256 k=128 l=40 act=silu scales=group quantize=group dtype=f32");
  const Dim m = Dim::M();
  const Product gate{3, 256, 128, {m, C(1)}, {C(2), C(1)}}, up = gate;
  const Product down{3, 40, 256, {m, C(2)}, {C(1), C(2)}};
  const Data dg = RandomData(gate);
  Data du = dg;
  for (uint8_t& code : du.w) code ^= 0x80;
  du.scale_w[0] = 0.75f;
  Data dd = RandomData(down);
  const std::vector<double> g = Naive(gate, dg), u = Naive(up, du);
  std::vector<double> c;
  for (size_t i = 0; i < g.size(); ++i) c.push_back(g[i] / (1 + std::exp(-g[i])) * u[i]);
  const Quantized q = Quantize({Granularity::kGroup}, c, 256);
  for (size_t i = 0; i < q.codes.size(); ++i) dd.a[i] = F32ToE4M3(static_cast<float>(q.codes[i]));
  dd.scale_a.assign(q.scales.begin(), q.scales.end());
  const std::vector<double> want = Naive(down, dd);
  const auto out = RunAll(problem.chain, 3,
                          {dg.a.data(), dg.scale_a.data(), dg.w.data(), dg.scale_w.data(),
                           du.w.data(), du.scale_w.data(), dd.w.data(), dd.scale_w.data()});
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(out[0][i] - want[i], 2);
    size += want[i] * want[i];
  }
  EXPECT_LT(std::sqrt(error / size), 1e-6);  // scales were f32 here
}

}  // namespace
}  // namespace sinter
