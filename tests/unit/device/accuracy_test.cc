// The arithmetic of stitched kernels and of products' activations, octave by octave of its
// operands, compiled from the device library over models of the approximate instructions. In each
// octave an error is at most one unit in the last place of the result's type, or twice that of
// PyTorch, which is modelled by its formula in f32.
#include "attention/powers.cuh"
#include "src/base/dtype.h"
#include "stitch/math.cuh"
#include "tests/support/test.h"
#include "tile/activation.cuh"

namespace sinter {
namespace {

using Of = std::function<float(float, float)>;
using Exactly = std::function<double(double, double)>;

struct Type {
  const char* name;
  int digits, least;  // bits of a normal number; exponent of the smallest
  int first, last;    // octaves that are tried
  float (*round)(float);
};
float RoundBF16(float x) { return BF16ToF32(F32ToBF16(x)); }
float RoundF16(float x) { return F16ToF32(F32ToF16(x)); }
float RoundF32(float x) { return x; }
const Type kBF16 = {"bf16", 8, -126, -126, 126, &RoundBF16};
const Type kF16 = {"f16", 11, -14, -14, 15, &RoundF16};
const Type kF32 = {"f32", 24, -126, -126, 126, &RoundF32};

double Unit(double value, const Type& type) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1, std::max(exponent - 1, type.least) - type.digits + 1);
}

struct Case {
  const char* name;
  Exactly exact;
  Of ours, torch;
  bool positive = false;
  double absolute = 0;  // also allowed, where the result has a zero that is not at zero
};

// The error of `y` in units of the result's last place; 0 if the result is not a normal number.
double Error(float y, double exact, const Type& type, double absolute) {
  const double rounded = static_cast<double>(type.round(static_cast<float>(exact)));
  if (!std::isfinite(rounded) || std::fabs(rounded) < std::ldexp(1, type.least)) return 0;
  const double off = std::fabs(static_cast<double>(type.round(y)) - exact) - absolute;
  return std::isnan(off) ? 1e30 : std::max(0.0, off) / Unit(exact, type);
}

// Second operands lie within 2^±8 of the first, or anywhere.
void ExpectEachOctave(const Case& c, const Type& type, bool near = true) {
  constexpr int kSamples = 400;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> mantissa(1, 2);
  for (int octave = type.first; octave <= type.last; ++octave) {
    double ours = 0, torch = 0;
    float worst_x = 0, worst_y = 0;
    for (int i = 0; i < kSamples; ++i) {
      const int other =
          near ? octave - 8 + static_cast<int>(random() % 17)
               : type.first +
                     static_cast<int>(random() % static_cast<unsigned>(type.last - type.first + 1));
      float x = type.round(std::ldexp(mantissa(random), octave));
      float y = type.round(std::ldexp(mantissa(random), std::clamp(other, type.first, type.last)));
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      if (!c.positive && i % 2 == 1) x = -x;
      const double exact = c.exact(static_cast<double>(x), static_cast<double>(y));
      torch = std::max(torch, Error(c.torch(x, y), exact, type, c.absolute));
      for (int side = 0; side < 8; ++side) {
        models::exp2_error = side & 1 ? 1 : -1;
        models::reciprocal_error = side & 2 ? 1 : -1;
        models::other_error = side & 4 ? 1 : -1;
        const double error = Error(c.ours(x, y), exact, type, c.absolute);
        if (error > ours) ours = error, worst_x = x, worst_y = y;
      }
    }
    EXPECT_LE(ours, std::max(1.0, 2 * torch))
        << c.name << " " << type.name << " of 2^" << octave << ", x " << worst_x << ", y "
        << worst_y << ", PyTorch " << torch;
  }
}

double Sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double GeluErfOf(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }
double GeluTanhOf(double x) {
  return x * Sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
}
float TorchSilu(float x, float) { return x / (1.0f + std::exp(-x)); }
float TorchGeluErf(float x, float) { return x * 0.5f * (1.0f + std::erf(x * 0.70710678f)); }
float TorchGeluTanh(float x, float) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
}
float Inner(float x) { return 0.79788456f * (x + 0.044715f * (x * (x * x))); }

// For results of 16 bits. Results in f16 use exact tanh and log (src/stitch/precision.h).
std::vector<Case> Fasts() {
  return {
      {"exp", [](double x, double) { return std::exp(x); },
       [](float x, float) { return Fast::exp(x); }, [](float x, float) { return std::exp(x); }},
      {"sigmoid", [](double x, double) { return Sigmoid(x); },
       [](float x, float) { return Fast::sigmoid(x); },
       [](float x, float) { return 1.0f / (1.0f + std::exp(-x)); }},
      {"reciprocal", [](double x, double) { return 1 / x; },
       [](float x, float) { return Fast::reciprocal(x); }, [](float x, float) { return 1.0f / x; }},
      {"div", [](double x, double y) { return x / y; },
       [](float x, float y) { return Fast::div(x, y); }, [](float x, float y) { return x / y; }},
      {"erf", [](double x, double) { return std::erf(x); },
       [](float x, float) { return Fast::erf(x); }, [](float x, float) { return std::erf(x); }},
      {"silu", [](double x, double) { return x * Sigmoid(x); },
       [](float x, float) { return x * Fast::sigmoid(x); }, TorchSilu},
      {"gelu_erf", [](double x, double) { return GeluErfOf(x); },
       [](float x, float) { return 0.5f * x * (1.0f + BesideOne::erf(0.70710678f * x)); },
       TorchGeluErf},
      {"gelu_tanh", [](double x, double) { return GeluTanhOf(x); },
       [](float x, float) { return 0.5f * x * BesideOne::one_plus_tanh(Inner(x)); }, TorchGeluTanh},
      {"1 + tanh", [](double x, double) { return 2 * Sigmoid(2 * x); },
       [](float x, float) { return BesideOne::one_plus_tanh(x); },
       [](float x, float) { return 1.0f + std::tanh(x); }},
      {"1 - tanh^2 by parts", [](double x, double) { return 1 / (std::cosh(x) * std::cosh(x)); },
       [](float x, float) { return 1.0f - BesideOne::square(BesideOne::tanh(x)); },
       [](float x, float) { return 1.0f - std::tanh(x) * std::tanh(x); }},
      {"1 - tanh^2", [](double x, double) { return 1 / (std::cosh(x) * std::cosh(x)); },
       [](float x, float) { return BesideOne::one_minus_tanh_square(x); },
       [](float x, float) { return 1.0f - std::tanh(x) * std::tanh(x); }},
      {"softplus", [](double x, double) { return std::log1p(std::exp(x)); },
       [](float x, float) { return Exact::log1p(Exact::exp(x)); },
       [](float x, float) { return std::log1p(std::exp(x)); }},
      {"epilogue silu", [](double x, double) { return x * Sigmoid(x); },
       [](float x, float) { return Silu::apply(x); }, TorchSilu},
      {"epilogue gelu_erf", [](double x, double) { return GeluErfOf(x); },
       [](float x, float) { return GeluErf::apply(x); }, TorchGeluErf},
      {"epilogue gelu_tanh", [](double x, double) { return GeluTanhOf(x); },
       [](float x, float) { return GeluTanh::apply(x); }, TorchGeluTanh},
  };
}

TEST(Accuracy, OfNarrowResultsIsAUnitInEachOctave) {
  for (const Case& c : Fasts()) {
    ExpectEachOctave(c, kBF16);
    ExpectEachOctave(c, kF16);
  }
  ExpectEachOctave(
      {"tanh", [](double x, double) { return std::tanh(x); },
       [](float x, float) { return Fast::tanh(x); }, [](float x, float) { return std::tanh(x); }},
      kBF16);
  ExpectEachOctave({"log", [](double x, double) { return std::log(x); },
                    [](float x, float) { return Fast::log(x); },
                    [](float x, float) { return std::log(x); }, true},
                   kBF16);
}

// Denormal divisors, divisors above 2^126 and quotients at both ends of f32.
TEST(Accuracy, OfFastQuotientsHoldsAtAllMagnitudes) {
  const Case div = {"div", [](double x, double y) { return x / y; },
                    [](float x, float y) { return Fast::div(x, y); },
                    [](float x, float y) { return x / y; }};
  Type all = kBF16;
  all.first = -133;
  all.last = 127;
  ExpectEachOctave(div, all, true);
  ExpectEachOctave(div, all, false);
  const Case reciprocal = {"reciprocal", [](double x, double) { return 1 / x; },
                           [](float x, float) { return Fast::reciprocal(x); },
                           [](float x, float) { return 1.0f / x; }};
  ExpectEachOctave(reciprocal, all);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Fast::div(1, inf), 0);
  EXPECT_EQ(Fast::div(-1, 0), -inf);
  EXPECT_EQ(Fast::div(inf, 2), inf);
  EXPECT_TRUE(std::isnan(Fast::div(0, 0)));
  EXPECT_TRUE(std::isnan(Fast::div(inf, inf)));
  EXPECT_TRUE(std::isnan(Fast::div(1, NAN)));
}

TEST(Accuracy, OfF32ActivationsIsThatOfPyTorch) {
  ExpectEachOctave({"sigmoid", [](double x, double) { return Sigmoid(x); },
                    [](float x, float) { return Exact::sigmoid(x); },
                    [](float x, float) { return 1.0f / (1.0f + std::exp(-x)); }},
                   kF32);
  ExpectEachOctave({"silu", [](double x, double) { return x * Sigmoid(x); },
                    [](float x, float) { return SiluF32::apply(x); }, TorchSilu},
                   kF32);
  ExpectEachOctave({"gelu_erf", [](double x, double) { return GeluErfOf(x); },
                    [](float x, float) { return GeluErfF32::apply(x); }, TorchGeluErf},
                   kF32);
  ExpectEachOctave({"gelu_tanh", [](double x, double) { return GeluTanhOf(x); },
                    [](float x, float) { return GeluTanhF32::apply(x); }, TorchGeluTanh},
                   kF32);
}

// Callers rely on an error of 5e-7 of 1 (src/stitch/precision.h). Infinities and NaN give what tanh
// gives.
TEST(Accuracy, OfTanhBesideOneIsThatOfOne) {
  for (float x = -20; x <= 20; x += 0x1p-8f) {
    const double t = std::tanh(static_cast<double>(x));
    for (int side = 0; side < 8; ++side) {
      models::exp2_error = side & 1 ? 1 : -1;
      models::reciprocal_error = side & 2 ? 1 : -1;
      models::other_error = side & 4 ? 1 : -1;
      EXPECT_NEAR(static_cast<double>(BesideOne::one_plus_tanh(x)), 1 + t, 5e-7) << x;
      EXPECT_NEAR(static_cast<double>(BesideOne::one_minus_tanh_square(x)), 1 - t * t, 5e-7) << x;
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_NEAR(BesideOne::one_plus_tanh(inf), 2, 5e-7);
  EXPECT_EQ(BesideOne::one_plus_tanh(-inf), 0);
  EXPECT_EQ(BesideOne::one_minus_tanh_square(inf), 0);
  EXPECT_EQ(BesideOne::one_minus_tanh_square(-inf), 0);
  EXPECT_TRUE(std::isnan(BesideOne::one_plus_tanh(NAN)));
  EXPECT_TRUE(std::isnan(BesideOne::one_minus_tanh_square(NAN)));
}

TEST(Accuracy, ActivationsKeepNaN) {
  for (float (*const apply)(float) :
       {&Identity::apply, &Relu::apply, &Silu::apply, &SiluF32::apply, &GeluErf::apply,
        &GeluErfF32::apply, &GeluTanh::apply, &GeluTanhF32::apply}) {
    EXPECT_TRUE(std::isnan(apply(NAN)));
  }
  for (const float x : {Exact::relu(NAN), Exact::max(NAN, 1.0f), Exact::max(1.0f, NAN),
                        Exact::min(NAN, 1.0f), Exact::min(1.0f, NAN)}) {
    EXPECT_TRUE(std::isnan(x));
  }
  EXPECT_EQ(Relu::apply(-3), 0);
  EXPECT_EQ(Relu::apply(3), 3);
}

TEST(Accuracy, MeansOfLargeElementsAreFinite) {
  for (const int count : {1, 5, 8, 1000, 4096, 5000}) {
    float sum = 0;
    const float share = mean_share(count);
    for (int i = 0; i < count; ++i) {
      const float element[] = {8.5e37f};
      sum = add_shares(sum, element, share);
    }
    EXPECT_NEAR(sum * mean_rest(count), 8.5e37f, 8.5e37f * 1e-4f) << count;
    EXPECT_LE(share * static_cast<float>(count), 1) << count;
  }
}

// So a layer norm of equal elements is 0, as PyTorch's, whatever the elements are.
TEST(Accuracy, MeansOfEqualElementsAreExact) {
  for (const float x : {1.1f, -3.7e5f, 8.5e37f, 3e38f}) {
    const float words[8] = {x, x, x, x, x, x, x, x};
    EXPECT_EQ(add_shares(0, words, mean_share(8)), x);
    EXPECT_EQ(add_shares(add_shares(0, words, mean_share(16)), words, mean_share(16)), x);
  }
}

// The bound is one rounding per addition into an element's share, plus two for the error of 1 / n.
TEST(Accuracy, MeansOfEqualElementsAreAsGoodAsTheirAdditions) {
  bool off = false;
  for (const int turns : {1, 2, 3, 5, 7, 96, 125}) {
    for (const float x : {1.1f, -3.7e5f, 1.9999999f, 3e38f}) {
      const float words[8] = {x, x, x, x, x, x, x, x};
      const int count = 8 * turns;
      float sum = 0;
      for (int turn = 0; turn < turns; ++turn) sum = add_shares(sum, words, mean_share(count));
      const double mean = static_cast<double>(sum * mean_rest(count));
      EXPECT_LE(std::fabs(mean / static_cast<double>(x) - 1), (turns + 2) * 0x1p-24)
          << count << " of " << x;
      off |= mean != static_cast<double>(x);
    }
  }
  EXPECT_TRUE(off) << "so the page says too little";
}

// A kernel knows its scale; these are of one scale an octave.
template <int kOctave>
struct ScaleOfOctave {
  static constexpr float kScale = static_cast<float>(
      kOctave < 0 ? 1.4426950408889634 / (int64_t{1} << -kOctave)
                  : 1.4426950408889634 * static_cast<double>(int64_t{1} << kOctave));
};

// softmax of scores that come in tiles of two, as a thread of attention computes it. `exact`: by
// differences in float64.
template <class Powers>
void ExpectSoftmax(const std::vector<float>& scores, double scale, const std::string& what) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float largest = -std::numeric_limits<float>::infinity(), total = 0;
  std::vector<float> powers;
  for (size_t i = 0; i < scores.size(); i += 2) {
    const float now = std::max({largest, scores[i], scores[i + 1]});
    const bool hidden = std::isinf(now) && now < 0;
    const Powers about(hidden ? 0.0f : now);
    const float factor = about.factor(largest);
    for (float& power : powers) power *= factor;
    for (const size_t j : {i, i + 1}) powers.push_back(about.of(scores[j]));
    total = total * factor + powers[i] + powers[i + 1];
    largest = now;
  }
  double sum = 0;
  std::vector<double> exact;
  for (const float score : scores) {
    exact.push_back(std::exp((static_cast<double>(score) - static_cast<double>(most)) * scale));
    sum += exact.back();
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(powers[i] / total), exact[i] / sum, 2e-4)
        << what << ", element " << i;
  }
}

template <int kOctave, class Powers>
void ExpectSoftmaxOfOctave(double scale) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {1.7f, -1.7f, 3e-9f, -5e5f, 1.2345679e8f}) {
    const float next = std::nextafter(x, -infinity), far = x - std::fabs(x);
    const std::string what = "scale 2^" + std::to_string(kOctave) + " of " + std::to_string(x);
    ExpectSoftmax<Powers>({x, x, x, x, x, x}, scale, what + ", equal");
    ExpectSoftmax<Powers>({far, far, x, far, far, far}, scale, what + ", one maximum");
    ExpectSoftmax<Powers>({far, next, next, x, next, x}, scale, what + ", neighbours");
    ExpectSoftmax<Powers>({-infinity, -infinity, -infinity, x, -infinity, -infinity}, scale,
                          what + ", one seen");
  }
}

template <int kFirst, int kLast>
void ExpectSoftmaxOfOctaves() {
  using Scaled = ScaledPowers<ScaleOfOctave<kFirst>>;
  ExpectSoftmaxOfOctave<kFirst, Scaled>(std::ldexp(1, kFirst));
  if constexpr (kFirst < kLast) ExpectSoftmaxOfOctaves<kFirst + 1, kLast>();
}

TEST(Accuracy, PowersOfScaledScoresAreThoseOfTheirDifferences) {
  ExpectSoftmaxOfOctaves<-40, 60>();
  ExpectSoftmaxOfOctave<0, PlainPowers>(1);
}

}  // namespace
}  // namespace sinter
