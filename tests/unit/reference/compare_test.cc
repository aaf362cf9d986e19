// Error measures: what passes, what never does.
#include "src/reference/compare.h"

#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::kInf;
using testing::kNaN;
using V = std::vector<double>;

TEST(Compare, MeasuresFrobeniusAndMaximumOverRms) {
  const ErrorMeasure e = Compare(V{3, 4.5, 0}, V{3, 4, 0});
  EXPECT_DOUBLE_EQ(e.relative, 0.5 / 5);
  EXPECT_DOUBLE_EQ(e.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(e.max_over_rms, 0.5 / std::sqrt(25.0 / 3));
  EXPECT_EQ(e.worst_index, 1);
  EXPECT_EQ(e.count, 3);
  EXPECT_FALSE(e.Within({0.05, 1}));
  EXPECT_FALSE(e.Within({1, 0.05}));
  EXPECT_TRUE(e.Within({0.11, 0.2}));
}

TEST(Compare, ALargeValueMayBeRoundedToEitherNeighbour) {
  std::vector<double> ref(4096, 0.0), out;
  ref[7] = 0.75;  // rms 0.0117: a step of bf16 there is 0.33 rms
  const Bounds bounds = BoundsFor(DType::kBF16);
  out = ref;
  out[7] += 0x1p-8;
  EXPECT_TRUE(Compare(out, ref, DType::kBF16).Within({0.01, bounds.max}));
  EXPECT_FALSE(Compare(out, ref, DType::kBF16).Within(bounds)) << "the whole is held closer";
  EXPECT_FALSE(Compare(out, ref, DType::kF32).Within({0.01, bounds.max}));
  out[7] += 0x1p-8;
  EXPECT_FALSE(Compare(out, ref, DType::kBF16).Within({0.1, bounds.max})) << "two steps";
  out = ref;
  out[9] = 0x1p-8;
  const ErrorMeasure measure = Compare(out, ref, DType::kBF16);
  EXPECT_FALSE(measure.Within({0.1, bounds.max})) << "no step of a zero";
  EXPECT_EQ(measure.worst_index, 9);
}

TEST(Compare, NotANumberNeverPasses) {
  const Bounds loose{kInf, kInf};
  EXPECT_FALSE(Compare(V{kNaN}, V{1}).Within(loose));
  EXPECT_FALSE(Compare(V{1}, V{kNaN}).Within(loose));
  EXPECT_FALSE(Compare(V{kNaN}, V{kNaN}).Within(loose));
  EXPECT_FALSE(Compare(V{kInf}, V{1}).Within(loose));
  EXPECT_FALSE(Compare(V{kInf}, V{-kInf}).Within(loose));
  EXPECT_FALSE(Compare(V{}, V{1}).Within(loose));
  EXPECT_TRUE(Compare(V{kInf, 1}, V{kInf, 1}).Within({0, 0}));
  EXPECT_EQ(Compare(V{1, kNaN, kNaN}, V{1, 2, 3}).worst_index, 1);
  EXPECT_EQ(Compare(V{1, kNaN, kNaN}, V{1, 2, 3}).nans, 2);
}

TEST(Compare, AZeroReferenceIsMatchedOnlyByZero) {
  EXPECT_TRUE(Compare(V{0, 0}, V{0, 0}).Within({0, 0}));
  EXPECT_EQ(Compare(V{0, 1e-30}, V{0, 0}).relative, kInf);
  EXPECT_TRUE(Compare(V{}, V{}).Within({0, 0}));
}

TEST(Compare, PiecesOfLongOutputsAddUp) {
  const size_t count = 600000;
  std::vector<double> ref(count, 2.0), out = ref;
  out[100] = 2.5;
  out[500000] = 1.0;
  out[599999] = 3.0;
  const ErrorMeasure measure = Compare(out, ref);
  EXPECT_EQ(measure.count, static_cast<int64_t>(count));
  EXPECT_EQ(measure.worst_index, 500000) << "the first of the largest";
  EXPECT_EQ(measure.max_over_rms, 0.5);
  EXPECT_NEAR(measure.relative, 1.5 / (2 * std::sqrt(static_cast<double>(count))), 1e-9);
  out[300000] = out[400000] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Compare(out, ref).nans, 2);
  EXPECT_EQ(Compare(out, ref).worst_index, 300000);
  std::vector<float> buffer(out.begin(), out.end());
  EXPECT_EQ(CompareBuffer(buffer.data(), DType::kF32, ref).worst_index, 300000);
}

TEST(Compare, ReadsBuffersOfEveryDType) {
  for (DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kS32, DType::kPred, DType::kE4M3}) {
    const V values = testing::Random(dtype, 5000, 3);
    const std::vector<uint8_t> bytes = testing::Encode(dtype, values);
    EXPECT_TRUE(CompareBuffer(bytes.data(), dtype, values).Within({0, 0}));
    V other = values;
    other[4999] += 1;
    EXPECT_EQ(CompareBuffer(bytes.data(), dtype, other).worst_index, 4999);
  }
}

// 2 % of the elements may be one step off, none more.
TEST(Compare, CountsStepsOfE4M3) {
  const V ref(100, 16);
  const Bounds bounds = BoundsFor(DType::kE4M3);
  const auto passes = [&](const V& out) { return Compare(out, ref, DType::kE4M3).Within(bounds); };
  V out = ref;
  EXPECT_TRUE(passes(out));
  out[5] = 18;   // the next code
  out[99] = 15;  // the one before, half as far
  EXPECT_TRUE(passes(out));
  EXPECT_EQ(Compare(out, ref, DType::kE4M3).neighbours, 2);
  out[7] = 18;
  EXPECT_FALSE(passes(out));
  out = ref;
  out[5] = 20;
  EXPECT_FALSE(passes(out));
  EXPECT_EQ(Compare(out, ref, DType::kE4M3).apart, 1);
  out[5] = kNaN;
  EXPECT_FALSE(passes(out));
  const V tiny(2000, 0);
  EXPECT_EQ(Compare(V(2000, -0x1p-9), tiny, DType::kE4M3).neighbours, 2000);
  EXPECT_EQ(Compare(out, ref).neighbours, 0);
}

TEST(Compare, CountsStepsOfS8) {
  const V ref(100, 16);
  const auto passes = [&](const V& out) {
    return Compare(out, ref, DType::kS8).Within(BoundsFor(DType::kS8));
  };
  V out = ref;
  out[5] = 17;
  out[6] = 15;
  EXPECT_TRUE(passes(out));
  out[7] = 17;
  EXPECT_FALSE(passes(out));
  out = ref;
  out[5] = 18;
  EXPECT_FALSE(passes(out));
}

TEST(Bounds, AreTheProjectsOwn) {
  EXPECT_EQ(BoundsFor(DType::kE4M3).neighbours, 2e-2);
  EXPECT_EQ(BoundsFor(DType::kBF16).relative, 5e-3);
  EXPECT_EQ(BoundsFor(DType::kBF16).max, 0.05);
  EXPECT_EQ(BoundsFor(DType::kF16).relative, 1e-3);
  EXPECT_EQ(BoundsFor(DType::kF16).max, 0.008);
  EXPECT_EQ(BoundsFor(DType::kF32).relative, 1e-5);
  EXPECT_EQ(BoundsFor(DType::kF32).max, 1e-4);
  EXPECT_EQ(BoundsFor(DType::kS32).max, 0);
}

TEST(Bounds, GrowWithTheRoundingsOfASequenceOfProducts) {
  const struct {
    const char* line;
    double growth;
  } cases[] = {
      {"rmsnorm rows=M cols=8", 1},
      {"matmul m=M n=8 k=8", 1},
      {"gate_up m=M n=8 k=8 act=silu", 1},
      {"gemm_chain m=M n=8 k=8 l=8 act=relu", 1},
      {"gated_ffn m=M n=8 k=8 l=8 act=silu", 1},
      {"products m=M k=8 n=8,8,8", std::sqrt(1.5)},
      {"products m=M k=8 n=8,8,8,8,8,8,8,8", 2},
      {"products m=M k=8 n=8,8,8,8 gated=0,1,1,0", 2},
  };
  for (const auto& c : cases) {
    const Bounds bounds = BoundsOf(ParseProblem(c.line)->chain, 0);
    EXPECT_DOUBLE_EQ(bounds.relative, 5e-3 * c.growth) << c.line;
    EXPECT_DOUBLE_EQ(bounds.max, 0.05 * c.growth) << c.line;
  }
}

// tanh(x), rounded to `between` and stored as `stored`; or x itself.
Bounds BoundsBehindACast(DType between, DType stored, bool computed) {
  return BoundsOf(
      ReadChain("x: f32[8]; out $0(abs(f32($1($2))))", stored == DType::kF32 ? "" : NameOf(stored),
                NameOf(between), computed ? "tanh(x)" : "x"),
      0);
}

TEST(Bounds, AreThoseOfTheCoarsestRoundingOnTheWay) {
  EXPECT_EQ(BoundsBehindACast(DType::kBF16, DType::kF16, true).max, 0.05);
  EXPECT_EQ(BoundsBehindACast(DType::kBF16, DType::kF16, true).relative, 5e-3);
  EXPECT_EQ(BoundsBehindACast(DType::kF16, DType::kF32, true).max, 0.008);
  EXPECT_EQ(BoundsBehindACast(DType::kF16, DType::kBF16, true).max, 0.05);
  EXPECT_EQ(BoundsBehindACast(DType::kE4M3, DType::kBF16, true).max, 0.8);
  EXPECT_EQ(BoundsBehindACast(DType::kS8, DType::kBF16, true).max, 0.8);
  EXPECT_EQ(BoundsBehindACast(DType::kBF16, DType::kE4M3, true).neighbours, 2e-2);
  // What f32 holds as float64 does is rounded alike.
  EXPECT_EQ(BoundsBehindACast(DType::kBF16, DType::kF16, false).max, 0.008);
}

// A value computed from bf16 numbers has the bounds of bf16 too: a kernel may hand it over so.
TEST(Bounds, AreThoseOfTheCoarsestTypeOnTheWay) {
  ChainReader reader("x: bf16[8]; narrow = sigmoid(x); wide = sigmoid(f32(x))");
  ASSERT_EQ(reader.builder().TypeOf(reader["narrow"]).dtype, DType::kBF16);
  reader.Add("out f16(narrow), f16(wide)");
  const Chain chain = reader.Finish();
  EXPECT_EQ(BoundsOf(chain, 0).relative, 5e-3);
  EXPECT_EQ(BoundsOf(chain, 0).max, 0.05);
  EXPECT_EQ(BoundsOf(chain, 1).relative, 1e-3);
}

// If there are five numbers, one of which is most of their size, that one may be rounded to the
// other side.
TEST(Compare, OneOfAFewNumbersMayBeAStepOff) {
  const std::vector<double> ref = {1, 0.125, 0.125, 0.125, 0.125};
  const auto passes = [&](double first, double second) {
    return Compare({first, second, 0.125, 0.125, 0.125}, ref, DType::kBF16)
        .Within(BoundsFor(DType::kBF16));
  };
  EXPECT_TRUE(passes(1 + 0x1p-7, 0.125));
  EXPECT_FALSE(passes(1 + 0x1p-6, 0.125));
  EXPECT_FALSE(passes(1 + 0x1p-7, 0.125 + 0x1p-7));
  // If there are many, most must be right.
  std::vector<double> many(4096, 1), off(4096, 1 + 0x1p-7);
  EXPECT_FALSE(Compare(off, many, DType::kBF16).Within(BoundsFor(DType::kBF16)));
}

// Sums of products as tensor cores add them: 32 products and the sum so far, all truncated 13 bits
// after the leading bit of the largest.
class CoarseSum {
 public:
  void Add(const double* a, const double* b) {
    double largest = std::fabs(sum_), exact = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(a[i] * b[i]));
    if (largest == 0) return;
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 13);
    for (int i = 0; i < 32; ++i) exact += std::trunc(a[i] * b[i] / unit) * unit;
    exact += std::trunc(sum_ / unit) * unit;
    const double last = exact == 0 ? 1 : std::ldexp(1.0, std::ilogb(exact) - 13);
    sum_ = std::trunc(exact / last) * last;
  }
  double value() const { return sum_; }

 private:
  double sum_ = 0;
};

// A product of normal codes, or of their magnitudes, its sums kept in the tensor cores for `part`
// of k.
ErrorMeasure CoarseError(int64_t k, int64_t part, bool one_sign = false) {
  constexpr int kSide = 24;
  std::mt19937 random(static_cast<uint32_t>(k));
  std::normal_distribution<double> normal;
  std::vector<double> codes(static_cast<size_t>(2 * kSide * k)), got, want;
  for (double& code : codes) {
    const double number = normal(random);
    code = E4M3ToF32(F32ToE4M3(static_cast<float>(one_sign ? std::fabs(number) : number)));
  }
  for (int i = 0; i < kSide * kSide; ++i) {
    const double *a = &codes[static_cast<size_t>(i / kSide * k)],
                 *b = &codes[static_cast<size_t>((kSide + i % kSide) * k)];
    double sum = 0, exact = 0;
    for (int64_t at = 0; at < k; at += part) {
      CoarseSum coarse;
      for (int64_t step = at; step < at + part; step += 32) coarse.Add(a + step, b + step);
      sum += coarse.value();
    }
    for (int64_t at = 0; at < k; ++at) exact += a[at] * b[at];
    got.push_back(sum);
    want.push_back(exact);
  }
  return Compare(got, want);
}

Bounds BoundsOfProduct(int64_t k, const char* accumulate) {
  return BoundsOf(ParseProblem(absl::StrCat("scaled_matmul m=M n=8 dtype=f32 k=", k,
                                            " accumulate=", accumulate))
                      ->chain,
                  0);
}

// Three times at the most, so that the bounds do not hide a wrong kernel.
TEST(Bounds, OfFastSumsGrowWithTheRootOfK) {
  for (const int64_t k : {256, 1024, 4096, 16384}) {
    const Bounds promoted = BoundsOfProduct(k, "promoted"), fast = BoundsOfProduct(k, "fast");
    EXPECT_EQ(promoted.relative, 1e-3);
    EXPECT_DOUBLE_EQ(fast.relative, std::max(1e-3, 4e-5 * std::sqrt(k)));
    EXPECT_DOUBLE_EQ(fast.max, std::max(5e-3, 5e-4 * std::sqrt(k)));
    const ErrorMeasure error = CoarseError(k, k);
    EXPECT_TRUE(error.Within(fast)) << k << ": " << error.ToString();
    EXPECT_GT(3 * error.relative, k < 1024 ? 0 : fast.relative) << k;
    EXPECT_EQ(error.Within(promoted), k <= 1024) << k << ": " << error.ToString();
    EXPECT_TRUE(CoarseError(k, 128).Within(promoted)) << k;
  }
}

// What docs/numerics.md says of sums of e4m3 products, by the model above: the page's figures, some
// of them measured, are at most a fifth too low and a third too high.
TEST(Accumulation, FiguresOfThePageAreThoseOfTheModel) {
  const auto expect_near = [](double error, double figure, const char* what) {
    EXPECT_LE(error, 1.2 * figure) << what;
    EXPECT_GE(error, 0.7 * figure) << what;
  };
  expect_near(CoarseError(4096, 128).relative, 1.3e-4, "promoted");
  expect_near(CoarseError(4096, 128, true).relative, 8e-4, "promoted, of one sign");
  for (const int64_t k : {1024, 4096, 16384}) {
    const double terms = static_cast<double>(k);
    expect_near(CoarseError(k, k).relative, 2.4e-5 * std::sqrt(terms), "fast");
  }
  expect_near(CoarseError(4096, 4096).relative, 1.4e-3, "fast, k 4096");
  expect_near(CoarseError(4096, 4096, true).relative, 0.065, "fast, of one sign, k 4096");
}

}  // namespace
}  // namespace sinter
