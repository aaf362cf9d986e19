// Every primitive against plain loops.
#include "src/reference/evaluator.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::ExpectNear;
using testing::kInf;
using testing::kNaN;
using testing::Random;
using testing::RunF64;

std::vector<double> NaiveMatmul(const std::vector<double>& a, const std::vector<double>& b,
                                int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  std::vector<double> c(m * n, 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) {
        c[i * n + j] += a[ta ? p * m + i : i * k + p] * b[tb ? j * k + p : p * n + j];
      }
    }
  }
  return c;
}

TEST(Matmul, EqualsLoopsOnTinyAndRaggedShapes) {
  const int64_t shapes[][3] = {{1, 1, 1},     {1, 9, 3},      {3, 1, 300},
                               {4, 8, 256},   {5, 7, 257},    {63, 129, 5},
                               {65, 127, 31}, {64, 128, 512}, {2, 300, 1}};
  for (const auto& [m, n, k] : shapes) {
    for (int t = 0; t < 4; ++t) {
      const bool ta = t & 1, tb = t & 2;
      const Chain chain =
          ReadChain("x: bf16[$0,$1]; y: f16[$2,$3]; out x$4 @ y$5", ta ? k : m, ta ? m : k,
                    tb ? n : k, tb ? k : n, ta ? ".T" : "", tb ? ".T" : "");
      const std::vector<double> a = Random(DType::kBF16, m * k, 1),
                                w = Random(DType::kF16, k * n, 2);
      ExpectNear(RunF64(chain, 0, {a, w})[0], NaiveMatmul(a, w, m, n, k, ta, tb), 1e-13);
    }
  }
}

TEST(Matmul, BatchesBothOrEitherOperand) {
  const std::vector<double> a = Random(DType::kF32, 6 * 5 * 7, 1),
                            w = Random(DType::kF32, 6 * 7 * 9, 2);
  const auto part = [](const std::vector<double>& v, int i, int size) {
    return std::vector<double>(v.begin() + i * size, v.begin() + (i + 1) * size);
  };
  for (int variant = 0; variant < 3; ++variant) {
    const bool batch_a = variant != 1, batch_b = variant != 2;
    const Chain chain = ReadChain("x: f32[$05,7]; y: f32[$17,9]; out x @ y", batch_a ? "2,3," : "",
                                  batch_b ? "2,3," : "");
    const auto in_a = batch_a ? a : part(a, 0, 35), in_b = batch_b ? w : part(w, 0, 63);
    const auto result = RunF64(chain, 0, {in_a, in_b});
    for (int i = 0; i < 6; ++i) {
      ExpectNear(part(result[0], i, 45),
                 NaiveMatmul(part(a, batch_a ? i : 0, 35), part(w, batch_b ? i : 0, 63), 5, 9, 7,
                             false, false),
                 1e-13);
    }
  }
}

struct UnaryCase {
  UnaryKind kind;
  std::function<double(double)> f;
};

bool IsInside(Domain domain, double x) {
  if (domain == Domain::kInsideOne) return std::fabs(x) < 1;
  if (domain == Domain::kAboveOne) return x > 1;
  return x > 0 || domain == Domain::kAll || domain == Domain::kNotZero;
}

TEST(Unary, EqualsItsFunction) {
  const UnaryCase cases[] = {
      {UnaryKind::kNeg, [](double x) { return -x; }},
      {UnaryKind::kAbs, [](double x) { return std::fabs(x); }},
      {UnaryKind::kExp, [](double x) { return std::exp(x); }},
      {UnaryKind::kLog, [](double x) { return std::log(x); }},
      {UnaryKind::kSqrt, [](double x) { return std::sqrt(x); }},
      {UnaryKind::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {UnaryKind::kTanh, [](double x) { return std::tanh(x); }},
      {UnaryKind::kErf, [](double x) { return std::erf(x); }},
      {UnaryKind::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {UnaryKind::kRelu, [](double x) { return std::max(x, 0.0); }},
      {UnaryKind::kReciprocal, [](double x) { return 1 / x; }},
      {UnaryKind::kSquare, [](double x) { return x * x; }},
      {UnaryKind::kSin, [](double x) { return std::sin(x); }},
      {UnaryKind::kCos, [](double x) { return std::cos(x); }},
      {UnaryKind::kFloor, [](double x) { return std::floor(x); }},
      {UnaryKind::kLog1p, [](double x) { return std::log(1 + x); }},
      {UnaryKind::kExpm1, [](double x) { return std::exp(x) - 1; }},
      {UnaryKind::kCeil, [](double x) { return -std::floor(-x); }},
      {UnaryKind::kRound,
       [](double x) { return std::remainder(x, 1) == 0 ? x : x - std::remainder(x, 1); }},
      {UnaryKind::kTrunc, [](double x) { return x - std::fmod(x, 1); }},
      {UnaryKind::kTan, [](double x) { return std::sin(x) / std::cos(x); }},
      {UnaryKind::kAsin, [](double x) { return std::atan2(x, std::sqrt(1 - x * x)); }},
      {UnaryKind::kAcos, [](double x) { return std::atan2(std::sqrt(1 - x * x), x); }},
      {UnaryKind::kAtan, [](double x) { return std::atan2(x, 1); }},
      {UnaryKind::kSinh, [](double x) { return (std::expm1(x) - std::expm1(-x)) / 2; }},
      {UnaryKind::kCosh, [](double x) { return (std::exp(x) + std::exp(-x)) / 2; }},
      {UnaryKind::kAsinh,
       [](double x) { return std::copysign(std::log(std::fabs(x) + std::hypot(x, 1)), x); }},
      {UnaryKind::kAcosh, [](double x) { return std::log(x + std::sqrt(x * x - 1)); }},
      {UnaryKind::kAtanh, [](double x) { return (std::log1p(x) - std::log1p(-x)) / 2; }},
      {UnaryKind::kErfc, [](double x) { return 1 - std::erf(x); }},
      {UnaryKind::kExp2, [](double x) { return std::pow(2, x); }},
      {UnaryKind::kLog2, [](double x) { return std::log(x) / std::log(2.0); }},
      {UnaryKind::kLog10, [](double x) { return std::log(x) / std::log(10.0); }},
  };
  for (const UnaryCase& c : cases) {
    std::vector<double> in;
    for (const double x : {0.5, 1.0, 1.5, 2.25, 7.0, 0.015625, -0.75, -3.0}) {
      if (IsInside(TraitsOf(c.kind).domain, x)) in.push_back(x);
    }
    const Chain chain = ReadChain("x: f32[M]; out $0(x)", NameOf(c.kind));
    std::vector<double> expected;
    for (double e : in) expected.push_back(c.f(e));
    ExpectNear(RunF64(chain, static_cast<int64_t>(in.size()), {in})[0], expected, 1e-15);
  }
}

TEST(Binary, EqualsItsFunctionAndSpreadsScalars) {
  const struct {
    BinaryKind kind;
    std::function<double(double, double)> f;
  } cases[] = {
      {BinaryKind::kAdd, [](double a, double b) { return a + b; }},
      {BinaryKind::kSub, [](double a, double b) { return a - b; }},
      {BinaryKind::kMul, [](double a, double b) { return a * b; }},
      {BinaryKind::kDiv, [](double a, double b) { return a / b; }},
      {BinaryKind::kMax, [](double a, double b) { return std::max(a, b); }},
      {BinaryKind::kMin, [](double a, double b) { return std::min(a, b); }},
      {BinaryKind::kPow, [](double a, double b) { return std::pow(std::fabs(a), b); }},
      {BinaryKind::kFmod, [](double a, double b) { return a - b * std::trunc(a / b); }},
      {BinaryKind::kCopysign,
       [](double a, double b) { return std::signbit(b) ? -std::fabs(a) : std::fabs(a); }},
      {BinaryKind::kAtan2,
       [](double a, double b) { return std::atan(a / b) + (b < 0 ? std::acos(-1.0) : 0); }},
      {BinaryKind::kHypot, [](double a, double b) { return std::sqrt(a * a + b * b); }},
  };
  const std::vector<double> x = {0.5, 2, 3, 0.25}, y = {-1, 4, 0.5, 2};
  for (const auto& c : cases) {
    const Chain chain = ReadChain("p, q: f32[M]; out $0(p, q), $0(2, q)", NameOf(c.kind));
    std::vector<double> both, spread;
    for (int i = 0; i < 4; ++i) both.push_back(c.f(x[i], y[i])), spread.push_back(c.f(2, y[i]));
    const auto result = RunF64(chain, 4, {x, y});
    ExpectNear(result[0], both, 1e-15);
    ExpectNear(result[1], spread, 1e-15);
  }
}

TEST(Primitives, GiveTheValuesOfTheFile) { testing::ExpectValues("primitives"); }

TEST(Cast, RoundsOnceAndToNearestEven) {
  using reference::RoundTo;
  EXPECT_EQ(RoundTo(DType::kBF16, 1 + 0x1p-8), 1);
  EXPECT_EQ(RoundTo(DType::kBF16, 1 + 0x1p-7 + 0x1p-8), 1 + 0x1p-6);
  // Through f32 first this would be a tie and go down.
  EXPECT_EQ(RoundTo(DType::kBF16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(RoundTo(DType::kF16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(RoundTo(DType::kF16, -(1 + 0x1p-11 - 0x1p-40)), -1);
  EXPECT_EQ(RoundTo(DType::kF16, 65519.999), 65504);
  EXPECT_EQ(RoundTo(DType::kF16, 65520), kInf);
  EXPECT_EQ(RoundTo(DType::kBF16, 1e300), kInf);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kBF16, kNaN)));
  EXPECT_EQ(RoundTo(DType::kF16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(RoundTo(DType::kF16, 0x1p-26), 0);
  EXPECT_EQ(RoundTo(DType::kF32, 0.1), 0.1f);
  EXPECT_EQ(RoundTo(DType::kS32, -1.9), -1);
  EXPECT_EQ(RoundTo(DType::kS32, 1e10), 2147483647);
  EXPECT_EQ(RoundTo(DType::kS32, -kInf), -2147483648.0);
  EXPECT_EQ(RoundTo(DType::kS32, kNaN), 0);
  EXPECT_EQ(RoundTo(DType::kPred, -0.5), 1);
  EXPECT_EQ(RoundTo(DType::kE4M3, 1 + 0x1p-4), 1);
  EXPECT_EQ(RoundTo(DType::kE4M3, 1 + 0x1p-4 + 0x1p-40), 1 + 0x1p-3);
  EXPECT_EQ(RoundTo(DType::kE4M3, 0x1p-10), 0);
  EXPECT_EQ(RoundTo(DType::kE4M3, 0x1p-10 + 0x1p-50), 0x1p-9);
  EXPECT_EQ(RoundTo(DType::kE4M3, 1e300), 448);
  EXPECT_EQ(RoundTo(DType::kE4M3, -kInf), -448);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kE4M3, kNaN)));
}

// From every code to wider dtypes and back, and an output stored as e4m3.
TEST(Cast, WidensE4M3AndStoresIt) {
  const Chain chain = ReadChain(
      "x: e4m3[254]; wide = f32(x); both = concat(x, x, 0); out wide, e4m3(wide * 2), "
      "both[254:508]");
  std::vector<uint8_t> codes, doubled(254), copied(254);
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) != 0x7f) codes.push_back(static_cast<uint8_t>(code));
  }
  std::vector<float> widened(254);
  ASSERT_TRUE(
      RunReference(chain, 0, {codes.data()}, {widened.data(), doubled.data(), copied.data()}).ok());
  EXPECT_EQ(copied, codes);
  for (int i = 0; i < 254; ++i) {
    EXPECT_EQ(widened[i], E4M3ToF32(codes[i]));
    EXPECT_EQ(E4M3ToF32(doubled[i]), std::max(-448.0f, std::min(448.0f, 2 * widened[i])));
  }
}

TEST(Reduce, EqualsLoopsOverEverySetOfAxes) {
  const int64_t dims[3] = {3, 4, 5};
  const std::vector<double> x = Random(DType::kF32, 60, 3);
  for (int set = 1; set < 8; ++set) {
    for (ReduceKind kind :
         {ReduceKind::kSum, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kMean}) {
      for (bool keep : {false, true}) {
        std::vector<int32_t> axes;
        int64_t out_dims[3], count = 1, reduced = 1;
        for (int i = 0; i < 3; ++i) {
          const bool reduce = set >> i & 1;
          if (reduce) axes.push_back(i);
          out_dims[i] = reduce ? 1 : dims[i];
          (reduce ? reduced : count) *= dims[i];
        }
        std::vector<std::vector<double>> groups(count);
        for (int64_t i = 0; i < 60; ++i) {
          const int64_t at[3] = {i / 20, i / 5 % 4, i % 5};
          int64_t index = 0;
          for (int d = 0; d < 3; ++d) index = index * out_dims[d] + (out_dims[d] == 1 ? 0 : at[d]);
          groups[index].push_back(x[i]);
        }
        std::vector<double> expected;
        for (const auto& group : groups) {
          double v = group[0];
          for (size_t i = 1; i < group.size(); ++i) {
            if (kind == ReduceKind::kMax) v = std::max(v, group[i]);
            if (kind == ReduceKind::kMin) v = std::min(v, group[i]);
            if (kind == ReduceKind::kSum || kind == ReduceKind::kMean) v += group[i];
          }
          expected.push_back(kind == ReduceKind::kMean ? v / static_cast<double>(reduced) : v);
        }
        ChainBuilder b;
        const ValueId in = *b.Input({DType::kF32, {C(3), C(4), C(5)}});
        ExpectNear(RunF64(Finished(b, {*b.Reduce(kind, in, axes, keep)}), 0, {x})[0], expected,
                   1e-14);
      }
    }
  }
}

TEST(Movements, ComposeLikeIndexArithmetic) {
  // x[3,4,5] -> transpose (2,0,1) -> [5,3,4] -> slice [1:5:2, :, 3:0..] -> reshape -> concat with
  // itself.
  const std::vector<double> x = Random(DType::kF16, 60, 5);
  const Chain chain = ReadChain(
      "in: f16[3,4,5]; turned = transpose(in, 2, 0, 1); cut = turned[1:5:2, :, 1:4:2];"
      "flat = reshape(cut, [6,2]); out spread(concat(flat, flat, 1), [2,6,4])");
  std::vector<double> expected;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int r = 0; r < 6; ++r) {
      for (int c = 0; c < 4; ++c) {
        const int i = 1 + 2 * (r / 3), j = r % 3, k = 1 + 2 * (c % 2);  // of turned
        expected.push_back(x[j * 20 + k * 5 + i]);
      }
    }
  }
  EXPECT_EQ(RunF64(chain, 0, {x})[0], expected);
}

// Rows and elements by ids of both types, of strided operands; ids outside give zeros.
TEST(Gather, EqualsLoopsAndGivesZerosOutside) {
  constexpr int64_t kRows = 5, kColumns = 6, kIds = 8;
  const std::vector<double> x = Random(DType::kBF16, kRows * 8, 1);
  const std::vector<double> ids = {4, -1, 0, 5, 2, 2, 3, 1LL << 40};
  for (const DType dtype : {DType::kS32, DType::kS64}) {
    std::vector<double> given = ids;
    if (dtype == DType::kS32) given.back() = 2147483647;
    const Chain chain = ReadChain(
        "table: const bf16[$0,$1] strides(8, 1); rows: $2[M,2]; out gather(table, rows), "
        "gather(transpose(table, 1, 0), rows)",
        kRows, kColumns, NameOf(dtype));
    EXPECT_EQ(chain.output_type(0).dims, (std::vector<Dim>{Dim::M(), C(2), C(kColumns)}));
    const auto result = RunF64(chain, kIds / 2, {{x.begin(), x.end() - 2}, given});
    for (int64_t i = 0; i < kIds; ++i) {
      const auto id = static_cast<int64_t>(given[static_cast<size_t>(i)]);
      for (int64_t j = 0; j < kColumns; ++j) {
        EXPECT_EQ(result[0][i * kColumns + j], id < 0 || id >= kRows ? 0 : x[id * 8 + j]);
      }
      for (int64_t j = 0; j < kRows; ++j) {
        EXPECT_EQ(result[1][i * kRows + j], id < 0 || id >= kColumns ? 0 : x[j * 8 + id]);
      }
    }
  }
}

// Rows by ids of both types into strided x: of equal ids the last one wins, those outside write
// nothing.
TEST(Scatter, EqualsLoopsAndWritesNothingOutside) {
  constexpr int64_t kRows = 5, kColumns = 6, kIds = 8;
  const std::vector<double> x = Random(DType::kBF16, kRows * 8, 1);
  const std::vector<double> rows = Random(DType::kBF16, kIds * kColumns, 2);
  for (const DType dtype : {DType::kS32, DType::kS64}) {
    const std::vector<double> ids = {4, -1, 2, 5,
                                     0, 2,  4, dtype == DType::kS32 ? 2147483647.0 : 1e12};
    const Chain chain = ReadChain(
        "over: bf16[$0,$1] strides(8, 1); which: $2[M,2]; r: bf16[M,2,$1];"
        "out scatter(over, which, r)",
        kRows, kColumns, NameOf(dtype));
    EXPECT_FALSE(IsRowIndependent(chain));
    std::vector<double> expected;
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) expected.push_back(x[i * 8 + j]);
    }
    EXPECT_EQ(RunF64(chain, 0, {{x.begin(), x.end() - 2}, {}, {}})[0], expected);
    for (int64_t i = 0; i < kIds; ++i) {
      const double id = ids[static_cast<size_t>(i)];
      if (id < 0 || id >= kRows) continue;
      for (int64_t j = 0; j < kColumns; ++j) {
        expected[static_cast<size_t>(id) * kColumns + j] = rows[i * kColumns + j];
      }
    }
    EXPECT_EQ(RunF64(chain, kIds / 2, {{x.begin(), x.end() - 2}, ids, rows})[0], expected);
  }
}

TEST(Gather, TakesElementsOfTheLastAxis) {
  constexpr int64_t kM = 3, kColumns = 4;
  const std::vector<double> x = Random(DType::kF32, kM * 2 * kColumns, 3);
  const std::vector<double> ids = {3, 0, 9, 1, 1, -2, 2, 2, 0, 3, 1, 4, 0, 0, 0, 3, 2, 1};
  const Chain chain =
      ReadChain("in: f32[M,2,$0]; which: s32[M,2,3]; out gather(in, which, -1)", kColumns);
  EXPECT_EQ(chain.op(2).axis, 2);
  EXPECT_TRUE(IsRowIndependent(chain));
  const auto result = RunF64(chain, kM, {x, ids});
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<int64_t>(ids[i]);
    EXPECT_EQ(result[0][i], id < 0 || id >= kColumns ? 0 : x[i / 3 * kColumns + id]) << i;
  }
}

TEST(Gather, OfMRowsMixesThem) {
  EXPECT_FALSE(IsRowIndependent(ReadChain("x: f32[M,2]; last: s64[2]; out gather(x, last)")));
}

}  // namespace
}  // namespace sinter
