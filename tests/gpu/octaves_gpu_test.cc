// Each op by itself on a device, octave by octave of its operands, in bf16, f16 and f32: stitched,
// in the epilogue of a product by the identity matrix, and by the library's own kernels. A bound on
// a whole tensor hides an octave that is wrong. The float64 reference decides; an error is at most
// one unit in the last place of the result's type, or twice that of PyTorch, which is modelled by
// its formula in f32 on the host. Then NaN in every kind of operand, reductions, and norms whose
// inputs have a large mean.
#include "src/standin/stand_in.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/support/attention_chains.h"
#include "tests/support/op_functions.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::octaves {
namespace {

using reference::RoundTo;

constexpr int64_t kColumns = 512;  // of all chains

struct Type {
  DType dtype;
  int digits, least;  // bits of a normal number; exponent of the smallest
  int first, last;    // octaves that are tried
};
constexpr Type kTypes[] = {{DType::kBF16, 8, -126, -126, 126},
                           {DType::kF16, 11, -14, -14, 15},
                           {DType::kF32, 24, -126, -126, 126}};

double Unit(double value, const Type& type) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1, std::max(exponent - 1, type.least) - type.digits + 1);
}
float Rounded(double value, DType dtype) { return static_cast<float>(RoundTo(dtype, value)); }

// A function of CUDA's, which PyTorch calls: it errs by up to two units in the last place (CUDA C++
// Programming Guide, "Mathematical Functions"), where the host's is right to half of one.
float Cuda(double value) { return static_cast<float>(value * (1 + 0x1p-23)); }
float Exp(float x) { return Cuda(std::exp(static_cast<double>(x))); }
float Tanh(float x) { return Cuda(std::tanh(static_cast<double>(x))); }
float Erf(float x) { return Cuda(std::erf(static_cast<double>(x))); }

std::string BytesOf(const std::vector<float>& values, DType dtype) {
  std::string bytes;
  for (const float value : values) {
    const uint16_t narrow = dtype == DType::kBF16 ? F32ToBF16(value) : F32ToF16(value);
    const bool wide = dtype == DType::kF32;
    const char* from =
        wide ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&narrow);
    bytes.append(from, wide ? sizeof value : sizeof narrow);
  }
  return bytes;
}

// One row an octave: mantissas at random, every second number negative unless `positive`.
std::vector<float> RowsOfOctaves(const Type& type, bool positive, uint32_t seed, int64_t columns) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> mantissa(1, 2);
  std::vector<float> values;
  for (int octave = type.first; octave <= type.last; ++octave) {
    for (int64_t i = 0; i < columns; ++i) {
      const double value = std::ldexp(mantissa(random), octave);
      const float most = type.dtype == DType::kF16 ? 65504.0f : 3e38f;
      const float x = std::min(Rounded(value, type.dtype), most);
      values.push_back(positive || i % 2 == 0 ? x : -x);
    }
  }
  return values;
}

// Canonical inputs, which may stand in another order than they were given.
std::vector<std::string> InOrder(const Chain& chain, const std::vector<std::vector<float>>& given,
                                 DType dtype) {
  std::vector<std::string> inputs;
  for (const int32_t input : chain.InputOrder()) {
    inputs.push_back(BytesOf(given[static_cast<size_t>(input)], dtype));
  }
  return inputs;
}

struct Ran {
  std::vector<double> got, want;
};

class Octaves : public GpuTest {
 protected:
  virtual absl::StatusOr<PreparedPlanPtr> Prepare(const Chain& chain, int64_t m,
                                                  PrepareOptions options = {}) {
    return engine()->Prepare(chain, m, options);
  }

  // `inputs`: canonical. The reference is not rounded to the output's type.
  absl::StatusOr<Ran> Run(const Chain& chain, int64_t m, const std::vector<std::string>& inputs,
                          PrepareOptions options = {}) {
    SINTER_ASSIGN_OR_RETURN(const PreparedPlanPtr plan, Prepare(chain, m, options));
    SINTER_ASSIGN_OR_RETURN(const auto data, DeviceChain::Make(ports(), chain, m, inputs, {}));
    SINTER_ASSIGN_OR_RETURN(const BoundRun run, data->Bind(plan));
    SINTER_ASSIGN_OR_RETURN(const std::string result, data->Run(run, m));
    Ran ran;
    SINTER_ASSIGN_OR_RETURN(ran.got, OutputValues(chain, 0, m, result));
    SINTER_ASSIGN_OR_RETURN(const std::vector<double>* want, data->Reference());
    ran.want = *want;
    return ran;
  }

  using Torch = std::function<float(float, float)>;

  // Each row within the bound. `absolute` is also allowed: near a zero that is not at zero.
  static void Compare(const std::string& name, const Type& type, const Ran& ran,
                      const std::vector<float>& x, const std::vector<float>& y, const Torch& torch,
                      double absolute) {
    const auto columns = static_cast<size_t>(kColumns);
    ASSERT_EQ(ran.got.size(), x.size());
    for (size_t row = 0; row * columns < x.size(); ++row) {
      double ours = 0, theirs = 0;
      size_t worst = row * columns;
      for (size_t i = row * columns; i < (row + 1) * columns; ++i) {
        const double exact = ran.want[i], rounded = RoundTo(type.dtype, exact);
        if (!std::isfinite(rounded) || std::fabs(rounded) < std::ldexp(1, type.least)) continue;
        const auto error = [&](double value) {
          const double off = std::fabs(value - exact) - absolute;
          return std::isnan(off) ? 1e30 : std::max(0.0, off) / Unit(exact, type);
        };
        const double modelled = static_cast<double>(torch(x[i], y.empty() ? 0.0f : y[i]));
        theirs = std::max(theirs, error(RoundTo(type.dtype, modelled)));
        if (error(ran.got[i]) > ours) ours = error(ran.got[i]), worst = i;
      }
      EXPECT_LE(ours, std::max(1.0, 2 * theirs))
          << name << " " << NameOf(type.dtype) << " of 2^" << type.first + static_cast<int>(row)
          << ": " << ran.got[worst] << " for " << ran.want[worst] << " of " << x[worst]
          << (y.empty() ? std::string() : absl::StrCat(", ", y[worst])) << "; PyTorch " << theirs;
    }
  }

  struct Case {
    std::string name, text;  // of x, and of y if it is there
    Torch torch;
    bool positive = false;
    double absolute = 0;
    int last = 127;  // octave in which what the chain says is still finite
  };

  // What PyTorch computes by a formula, not by a function of CUDA's or by one instruction.
  static Torch TorchOf(UnaryKind kind) {
    if (kind == UnaryKind::kSigmoid) return [](float x, float) { return 1 / (1 + Exp(-x)); };
    const double error = TraitsOf(kind).exact.issue > 1 ? 0x1p-23 : 0;
    return [kind, error](float x, float) {
      return static_cast<float>(testing::Apply(kind, static_cast<double>(x)) * (1 + error));
    };
  }
  // Angles and lengths err by up to three units in the last place, which no other function of two
  // does.
  static Torch TorchOf(BinaryKind kind) {
    const bool errs = kind == BinaryKind::kAtan2 || kind == BinaryKind::kHypot;
    return [kind, error = errs ? 0x1.8p-23 : 0.0](float x, float y) {
      return static_cast<float>(
          testing::Apply(kind, static_cast<double>(x), static_cast<double>(y)) * (1 + error));
    };
  }
  static Case Of(UnaryKind kind) {
    // Zeros that are not at zero.
    const bool waves = kind == UnaryKind::kSin || kind == UnaryKind::kCos;
    const double absolute = waves ? 0x1p-22 : kind == UnaryKind::kLog ? 0x1p-21 : 0;
    const std::string name(NameOf(kind));
    return {name, name + "(x)", TorchOf(kind), TraitsOf(kind).domain == Domain::kPositive,
            absolute};
  }
  static Case Of(BinaryKind kind) {
    const std::string name(NameOf(kind));
    return {name, name + "(x, y)", TorchOf(kind)};
  }

  // Every op of the table that takes floats, but powers, whose octaves are few, and composites.
  static std::vector<Case> Cases() {
    std::vector<Case> cases = Composites();
    for (const UnaryKind kind : UnaryKinds()) {
      if (TraitsOf(kind).operands != OperandTypes::kPreds) cases.push_back(Of(kind));
    }
    for (const BinaryKind kind : BinaryKinds()) {
      const bool floats = TraitsOf(kind).operands != OperandTypes::kPreds;
      if (floats && kind != BinaryKind::kPow) cases.push_back(Of(kind));
    }
    return cases;
  }

  static std::vector<Case> Composites() {
    return {{"silu", "silu(x)", &TorchSilu},
            {"gelu_erf", "gelu_erf(x)", &TorchGeluErf},
            {"gelu_tanh", "gelu_tanh(x)", &TorchGeluTanh},
            {"softplus", "softplus(x)", &TorchSoftplus},
            {"clamp", "clamp(x, -0.5, 6)",
             [](float x, float) { return std::min(std::max(x, -0.5f), 6.0f); }},
            // Above 88 the exponential is infinite, in PyTorch's log(1 + exp(x)) too.
            {"log(1 + exp)", "log(1 + exp(x))", &TorchSoftplus, false, 0, 5},
            {"1 + tanh", "1 + tanh(x)", [](float x, float) { return 1 + Tanh(x); }},
            {"1 - tanh^2", "one = 1; t = tanh(x); one - t * t",
             [](float x, float) { return 1 - Tanh(x) * Tanh(x); }}};
  }
  static float TorchSoftplus(float x, float) {
    return x > 20 ? x : Cuda(std::log1p(static_cast<double>(Exp(x))));
  }
  static float TorchSilu(float x, float) { return x / (1 + Exp(-x)); }
  static float TorchGeluErf(float x, float) { return x * 0.5f * (1 + Erf(x * 0.70710678f)); }
  static float TorchGeluTanh(float x, float) {
    return 0.5f * x * (1 + Tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  }

  void ExpectStitched(const Case& c, Type type) {
    type.last = std::min(type.last, c.last);
    const bool two = absl::EndsWith(c.text, "(x, y)");
    const Chain chain = ReadChain(
        absl::StrCat(type.dtype == DType::kF32 ? (two ? "x, y: $0[M,512]; " : "x: $0[M,512]; ")
                     : two                     ? "a, b: $0[M,512]; x = f32(a); y = f32(b); "
                                               : "a: $0[M,512]; x = f32(a); ",
                     c.text, type.dtype == DType::kF32 ? "; out _" : "; out $0(_)"),
        NameOf(type.dtype));
    const std::vector<float> xs = RowsOfOctaves(type, c.positive, 1, kColumns);
    std::vector<float> ys;
    if (two) {  // octaves from the largest to the smallest, so that all ratios occur
      ys = RowsOfOctaves(type, false, 2, kColumns);
      std::reverse(ys.begin(), ys.end());
    }
    const auto ran = Run(chain, type.last - type.first + 1, InOrder(chain, {xs, ys}, type.dtype));
    if (ran.status().code() == absl::StatusCode::kFailedPrecondition && standing_in_) return;
    ASSERT_OK(ran) << c.name;
    ++taken_;
    Compare(c.name, type, *ran, xs, ys, c.torch, c.absolute);
  }

  bool standing_in_ = false;
  int taken_ = 0;
};

TEST_F(Octaves, OfStitchedOps) {
  for (const Case& c : Cases()) {
    for (const Type& type : kTypes) ExpectStitched(c, type);
  }
}

// The product by the identity hands its rows through: f32 sums of one term.
TEST_F(Octaves, OfActivationsOfProducts) {
  const std::pair<Activation, Torch> acts[] = {
      {Activation::kRelu, [](float x, float) { return std::max(x, 0.0f); }},
      {Activation::kSilu, &TorchSilu},
      {Activation::kGeluErf, &TorchGeluErf},
      {Activation::kGeluTanh, &TorchGeluTanh}};
  for (const Type& type : {kTypes[0], kTypes[1]}) {
    for (const bool f32 : {false, true}) {
      for (const auto& [act, torch] : acts) {
        const Chain chain =
            ReadChain("x: $0[M,512]; w: $0[512,512]; out $1(linear(x, w, none, $2))",
                      NameOf(type.dtype), f32 ? "" : NameOf(type.dtype), NameOf(act));
        std::vector<float> identity(kColumns * kColumns);
        for (size_t i = 0; i < identity.size(); i += kColumns + 1) identity[i] = 1;
        const std::vector<float> xs = RowsOfOctaves(type, false, 3, kColumns);
        const auto ran =
            Got(Run(chain, type.last - type.first + 1, InOrder(chain, {xs, identity}, type.dtype)));
        Type result = type;
        if (f32) {
          result.dtype = DType::kF32;
          result.digits = 24;
          result.least = -126;
        }
        Compare(absl::StrCat("epilogue ", NameOf(act)), result, ran, xs, {}, torch, 0);
      }
    }
  }
}

// A NaN in any operand is a NaN where the reference has one, whichever kernel computes the ReLU.
TEST_F(Octaves, NaNStaysInEveryKernel) {
  constexpr int64_t kRows = 70;
  for (const char* text :
       {"matmul m=M n=264 k=136 act=relu dtype=", "gate_up m=M n=264 k=136 act=relu dtype=",
        "gemm_chain m=M n=264 k=136 l=72 act=relu dtype=",
        "gated_ffn m=M n=264 k=136 l=72 act=relu dtype=",
        "conv_chain b=M ic=64 h=5 w=7 oc1=64 oc2=72 k1=3 k2=1 act=relu stride=1 pad=same dtype="}) {
    for (const char* dtype : {"bf16", "f16"}) {
      const auto problem = Got(ParseProblem(absl::StrCat(text, dtype)), text);
      const Chain& chain = problem.chain;
      const auto random = Got(RandomInputs(chain, kRows, 5));
      for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused,
                                PrepareOptions::Choice::kBest}) {
        for (size_t input = 0; input < random.size(); ++input) {
          std::vector<std::string> inputs = random;
          const uint16_t nan = 0x7fff;  // in either type
          std::memcpy(&inputs[input][inputs[input].size() / 4 * 2], &nan, sizeof nan);
          const auto ran = Run(chain, kRows, inputs, {.choice = choice});
          if (!ran.ok() && choice == PrepareOptions::Choice::kFused) continue;  // none is legal
          ASSERT_OK(ran) << text;
          int64_t lost = 0, made = 0;
          for (size_t i = 0; i < ran->want.size(); ++i) {
            lost += std::isnan(ran->want[i]) && !std::isnan(ran->got[i]);
            made += !std::isnan(ran->want[i]) && std::isnan(ran->got[i]);
          }
          EXPECT_EQ(lost, 0) << text << dtype << ", input " << input;
          // A padded tap is a zero times the weight in a kernel, and nothing in the reference.
          const bool padded = absl::StrContains(text, "conv");
          EXPECT_TRUE(padded || made == 0) << text << dtype << ", input " << input;
        }
      }
    }
  }
}

// Rows of scores for each octave of a scale from 2^-40 to 2^60: equal ones, one maximum among less,
// and all -infinity but one, of both signs.
struct ScaledRows {
  static constexpr int kFirst = -40, kLast = 60;
  std::vector<float> scores, scales;

  void Add(float scale, float most, float other) {
    constexpr size_t kPlace = 137;
    scores.resize(scores.size() + kColumns, other);
    scores[scores.size() - kColumns + kPlace] = most;
    scales.push_back(scale);
  }
  ScaledRows() {
    const float infinity = std::numeric_limits<float>::infinity();
    for (int octave = kFirst; octave <= kLast; ++octave) {
      for (const float mantissa : {1.0f, 1.3f, -1.7f}) {
        const float scale = std::ldexp(mantissa, octave), sign = mantissa < 0 ? -1.0f : 1.0f;
        for (const float x : {1.7f, -1.7f, 1.2345679f}) Add(scale, x, x);
        Add(scale, sign * 1.7f, sign * -1.7f);
        Add(scale, sign * 1.7f, sign * -infinity);
      }
    }
  }
};

// At the maximum the difference of a scaled score and the largest is 0 at every scale.
TEST_F(Octaves, OfScalesInFrontOfSoftmaxes) {
  const ScaledRows rows;
  const auto m = static_cast<int64_t>(rows.scales.size());
  for (const bool logarithm : {false, true}) {
    const Chain chain = ReadChain(
        "x: f32[M,512]; scale: f32[M,1]; z = x * spread(scale, x);"
        "apart = z - spread(reduce_max(z, 1, keep), x); powers = exp(apart);"
        "total = sum(powers, 1, keep); out $0",
        logarithm ? "apart - spread(log(total), x)" : "powers / spread(total, x)");
    const auto ran = Got(Run(chain, m, InOrder(chain, {rows.scores, rows.scales}, DType::kF32)));
    for (size_t i = 0; i < ran.got.size(); ++i) {
      const double got = ran.got[i], want = ran.want[i];
      const bool same = got == want || std::fabs(got - want) <= 1e-5 + 1e-5 * std::fabs(want);
      EXPECT_TRUE(same) << (logarithm ? "logarithm of scale " : "scale ")
                        << rows.scales[i / kColumns] << ", score " << rows.scores[i] << ": " << got
                        << " for " << want;
      if (!same) break;
    }
  }
}

// The same of attention: scores are exact, as q is of ones and a row of k of one whole number.
TEST_F(Octaves, OfScalesInAttention) {
  constexpr int64_t kRows = 64, kHead = 16;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int64_t keys : {int64_t{200}, int64_t{300}}) {  // one tile, and several
      for (const int octave : {-40, -20, 0, 10, 20, 24, 26, 28, 29, 30, 32, 36, 46, 60}) {
        testing::AttentionForm form{
            .heads = 2, .rows = kRows, .keys = keys, .head = kHead, .dtype = dtype};
        form.scale = std::ldexp(1.7, octave);
        const Chain chain = testing::MakeAttention(form);
        for (const auto& [most, other] : {std::pair(3.0f, 3.0f), {-3.0f, -3.0f}, {2.0f, -1.0f}}) {
          std::vector<float> given[3];
          given[0].assign(static_cast<size_t>(form.heads * kRows * kHead), 1);
          for (int64_t i = 0; i < form.heads * keys * kHead; ++i) {
            given[1].push_back(i / kHead % keys == 37 ? most : other);
            given[2].push_back(static_cast<float>(i % 7 - 3));
          }
          const auto ran = Got(Run(chain, 1, InOrder(chain, {given[0], given[1], given[2]}, dtype)),
                               form.Name());
          double worst = 0;
          for (size_t i = 0; i < ran.got.size(); ++i) {
            const double off = std::fabs(ran.got[i] - ran.want[i]);
            worst = std::max(worst, std::isnan(off) ? 1e30 : off);
          }
          EXPECT_LE(worst, 0.03) << form.Name() << " scale 1.7 * 2^" << octave << " of " << most
                                 << " among " << other;
        }
      }
    }
  }
}

// f32 sums of n terms err by at most n roundings; means as they do.
TEST_F(Octaves, OfReductions) {
  const Type& type = kTypes[2];
  for (const absl::string_view kind : {"sum", "mean", "reduce_max", "reduce_min"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Chain chain = ReadChain("x: $0[M,512]; out $1(x, 1)", NameOf(dtype), kind);
      Type octaves = type;
      octaves.dtype = dtype;
      octaves.first = -100;  // below, sums round to denormal numbers
      octaves.last = kind == "mean" ? 126 : 110;
      const std::vector<float> xs = RowsOfOctaves(octaves, true, 9, kColumns);
      const auto ran = Got(Run(chain, octaves.last - octaves.first + 1, {BytesOf(xs, dtype)}));
      for (size_t row = 0; row < ran.got.size(); ++row) {
        EXPECT_NEAR(ran.got[row], ran.want[row], 32 * 0x1p-24 * ran.want[row])
            << kind << " " << NameOf(dtype) << " row " << row;
      }
    }
  }
}

// Rows of a large mean: what is left after the subtraction has the mean's rounding errors. Rows of
// equal elements are 0, though their sum is beyond f32.
TEST_F(Octaves, OfNormsOfLargeMean) {
  constexpr int kRows = 200;
  for (const char* text : {"layernorm rows=M cols=512 eps=1e-5 affine=0 dtype=f32",
                           "layernorm rows=M cols=512 eps=1e-5 affine=0 dtype=bf16"}) {
    const auto problem = Got(ParseProblem(text));
    const Chain& chain = problem.chain;
    const DType dtype = chain.input_op(0).type.dtype;
    std::mt19937 random(11);
    std::uniform_real_distribution<double> noise(-1, 1);
    std::vector<float> xs;
    for (int row = 0; row < kRows; ++row) {
      const double scale = std::ldexp(1, row / 4 - 25), mean = row % 4 == 0 ? 0 : 100 * (row % 4);
      for (int64_t i = 0; i < kColumns; ++i) {
        xs.push_back(row < 4 ? 8.5e37f : Rounded(scale * (mean + noise(random)), dtype));
      }
    }
    const auto ran = Got(Run(chain, kRows, {BytesOf(xs, dtype)}));
    for (size_t i = 0; i < xs.size(); ++i) {
      const double unit = dtype == DType::kBF16 ? Unit(ran.want[i], kTypes[0]) : 0;
      if (i < 4 * kColumns) {
        ASSERT_TRUE(std::isfinite(ran.got[i])) << text << " element " << i;
        continue;
      }
      ASSERT_NEAR(ran.got[i], ran.want[i], unit + 5e-4) << text << " element " << i;
    }
  }
}

// Steps over quotients: an error of one unit shows.
TEST_F(Octaves, QuotientsUnderAStepAreExact) {
  std::vector<float> xs, ys;
  for (int y = 1; y <= 64; ++y) {
    for (int64_t i = 0; i < kColumns; ++i) {
      ys.push_back(static_cast<float>(y));
      xs.push_back(static_cast<float>(y * (i % 3)) + static_cast<float>(i / 128));
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool floors : {false, true}) {
      const Chain chain = ReadChain("x, y: $0[M,512]; q = x / y; out $1", NameOf(dtype),
                                    floors ? "bf16(floor(q))" : "s32(q)");
      const auto ran = Got(Run(chain, 64, InOrder(chain, {xs, ys}, dtype)));
      for (size_t i = 0; i < ran.got.size(); ++i) {
        ASSERT_EQ(ran.got[i], RoundTo(floors ? DType::kBF16 : DType::kS32, ran.want[i])) << i;
      }
    }
  }
}

// The same by the library's own kernels.
class OctavesOfStandIns : public Octaves {
 public:
  static void SetUpTestSuite() {
    setenv("SINTER_STAND_INS", "1", 1);
    GpuTest::SetUpTestSuite();
  }

 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (EmbeddedStandIns() == 0) GTEST_SKIP() << "built without NVRTC";
    standing_in_ = true;
  }
  absl::StatusOr<PreparedPlanPtr> Prepare(const Chain& chain, int64_t m,
                                          PrepareOptions options) override {
    options.no_build = true;
    absl::StatusOr<PreparedPlanPtr> plan = engine()->Prepare(chain, m, options);
    if (!plan.ok()) return absl::FailedPreconditionError(plan.status().message());
    if (!(*plan)->plan().IsStandIn()) return absl::FailedPreconditionError("it was compiled");
    return plan;
  }
};

TEST_F(OctavesOfStandIns, OfOps) {
  for (const Case& c : Cases()) {
    for (const Type& type : kTypes) ExpectStitched(c, type);
  }
  EXPECT_GE(taken_, 20);
}

}  // namespace
}  // namespace sinter::gpu_testing::octaves
