// Products of e4m3 and s8 operands: every number of rows, schedules of every kind, a biased input
// that shows missing promotion, rows with NaN, and whole layers whose intermediate is quantised.
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/mutations.h"
#include "tests/support/product_in.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::fp8 {
namespace {

constexpr uint8_t kNanCode = 0x7f;

// RMS and largest error over the RMS of the result: promoted sums stored in f32, a bf16 result,
// all-positive data, and a quantized intermediate, some of whose codes flip.
constexpr Bounds kPromoted{3e-4, 3e-3, 0}, kBF16{2.5e-3, 0.01, 0}, kBiased{1e-3, 3e-3, 0};
constexpr Bounds kRequantised{1e-2, 0.3, 0};

// Numbers of a linear congruence (Knuth): the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  double Uniform() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }
  double Normal() {  // Irwin-Hall of twelve
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

// Codes are of normal numbers, or uniform in [0.5, 1] where `positive`; scales are in [0.5, 1.5];
// everything else is as RandomInputs has it.
absl::StatusOr<std::vector<std::string>> InputsOf(const Chain& chain, int64_t rows, bool positive) {
  SINTER_ASSIGN_OR_RETURN(std::vector<std::string> inputs, RandomInputs(chain, rows, 5));
  for (int i = 0; i < chain.num_inputs(); ++i) {
    Random random(static_cast<uint64_t>(i) + 17);
    std::string& bytes = inputs[static_cast<size_t>(i)];
    const DType dtype = chain.input_op(i).type.dtype;
    if (dtype == DType::kE4M3) {
      for (char& code : bytes) {
        const double value = positive ? 0.5 + random.Uniform() / 2 : random.Normal();
        code = static_cast<char>(F32ToE4M3(static_cast<float>(value)));
      }
    }
    if (dtype != DType::kF32) continue;
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      const auto scale = static_cast<float>(0.5 + random.Uniform());
      std::memcpy(&bytes[at], &scale, sizeof scale);
    }
  }
  return inputs;
}

Chain ChainOf(const std::string& line) { return ParseProblem(line)->chain; }

// act(gate) * up of one scale a row and a column, cast to `result` ("": f32, not cast).
Chain GatedPair(int64_t n, int64_t k, const char* result) {
  return ReadChain(
      "a: e4m3[M,$1]; sa: f32[M,1]; gate: const e4m3[$0,$1]; sg: const f32[$0,1];"
      "up: const e4m3[$0,$1]; su: const f32[$0,1];"
      "out $2(silu(scaled(a, gate, sa, sg)) * scaled(a, up, sa, su))",
      n, k, result);
}

// A GEMM of [n, k] weights, as f32, whose scales have the given strides. `of_rows`: for the scales
// of the rows' groups or, without `groups`, of the rows. `of_weights`: for the scales of blocks or
// columns of the weights.
Chain StridedScales(int64_t n, int64_t k, bool groups, const char* of_rows,
                    const char* of_weights) {
  const auto strides = [](const char* text) {
    return *text == 0 ? "" : absl::StrCat(" strides(", text, ")");
  };
  return ReadChain(
      "a: e4m3[M,$1]; sa: f32[M,$2]$4; w: const e4m3[$0,$1]; sw: const f32[$3,$2]$5;"
      "out scaled(a, w, sa, sw)",
      n, k, groups ? k / 128 : 1, groups ? (n + 127) / 128 : n, strides(of_rows),
      strides(of_weights));
}

// rmsnorm, quantise, gated FFN with a quantised intermediate, residual.
Chain Layer(int64_t n, int64_t k, Granularity granularity) {
  ChainBuilder b;
  const auto matrix = [&](DType dtype, Dim rows, int64_t columns) {
    return b.Input({dtype, {rows, Dim::Constant(columns)}}, {!rows.symbolic, {}, ""}).value();
  };
  const auto weights = [&](int64_t rows, int64_t columns) {
    return Scaled{matrix(DType::kE4M3, Dim::Constant(rows), columns),
                  matrix(DType::kF32, Dim::Constant(rows), 1)};
  };
  const ValueId x = matrix(DType::kBF16, Dim::M(), k);
  const ValueId gamma = b.Input({DType::kBF16, {Dim::Constant(k)}}, {true, {}, "gamma"}).value();
  const ValueId normed = AddRmsNorm(b, x, 1e-5, gamma).value();
  QuantizeSpec rows{.granularity = Granularity::kRow};
  QuantizeSpec middle{.granularity = granularity};
  const ValueId y = AddScaledFfn(b,
                                 {.a = AddQuantize(b, normed, rows).value(),
                                  .w1 = weights(n, k),
                                  .w_up = weights(n, k),
                                  .w2 = weights(k, n)},
                                 true, middle, Activation::kSilu)
                        .value();
  const ValueId wide = b.Cast(x, DType::kF32).value();
  const ValueId sum = b.Binary(BinaryKind::kAdd, y, wide).value();
  return Finished(b, {b.Cast(sum, DType::kBF16).value()});
}

// A gated FFN of f32 whose second weights are the identity, so that the result is the codes of the
// intermediate times their scales.
Chain CodesOf(Granularity granularity) {
  return ChainOf(absl::StrCat("scaled_gated_ffn m=1 n=384 k=640 l=384 scales=row quantize=",
                              NameOf(granularity), " act=silu bias1=1 dtype=f32"));
}
std::vector<std::string> WithIdentity(const Chain& chain, std::vector<std::string> inputs) {
  constexpr int64_t kSide = 384;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const TensorType& type = chain.input_op(i).type;
    const std::vector<Dim> square = {Dim::Constant(kSide), Dim::Constant(kSide)};
    if (type.dtype != DType::kE4M3 || type.dims != square) continue;
    std::string& bytes = inputs[static_cast<size_t>(i)];
    bytes.assign(bytes.size(), 0);
    for (size_t j = 0; j < kSide; ++j) bytes[j * kSide + j] = static_cast<char>(F32ToE4M3(1));
  }
  return inputs;
}

// The inputs of `chain` for `rows` rows on the device.
std::unique_ptr<DeviceChain> RunsOf(const Ports& ports, const Chain& chain, int64_t rows,
                                    const Bounds& bounds, bool positive = false) {
  return Got(DeviceChain::Make(ports, chain, rows, Got(InputsOf(chain, rows, positive)), bounds));
}

// A line of figures: the worst errors so far.
void Print(const std::string& name, const DeviceChain& runs) {
  std::printf("FIGURE %s relative %.3g largest %.3g\n", name.c_str(), runs.worst().relative,
              runs.worst().max);
}

class Fp8 : public GpuTest {
 protected:
  static constexpr int64_t kMost = 300;

  static std::unique_ptr<DeviceChain> Runs(const Chain& chain, int64_t rows, const Bounds& bounds,
                                           bool positive = false) {
    return RunsOf(ports(), chain, rows, bounds, positive);
  }

  // Every m from 1 to 300 with the plan of its bucket.
  static void EveryM(const std::string& name, const Chain& chain, const Bounds& bounds) {
    SCOPED_TRACE(name);
    const auto runs = Runs(chain, kMost, bounds);
    ExpectEveryM(*runs, kMost, PlansOfBuckets(chain, kMost, PrepareOptions::Choice::kBest));
    Print(name, *runs);
  }

  // Schedules from all over the space, at some numbers of rows, twice each.
  static void Schedules(const std::string& what, const Chain& made,
                        const std::vector<int64_t>& numbers, size_t count, const Bounds& bounds,
                        bool jitter = false, bool positive = false) {
    for (const int64_t rows : numbers) {
      SchedulesOf(absl::StrCat(what, " ", rows), made, rows, count, bounds, jitter, positive);
    }
  }
  static void SchedulesOf(const std::string& name, const Chain& made, int64_t rows, size_t count,
                          const Bounds& bounds, bool jitter, bool positive) {
    const auto chain = std::make_shared<const Chain>(made);
    const auto matched = Got(MatchProducts(*chain, BucketOf(rows)));
    std::vector<Plan> plans;
    for (const Schedule& s :
         Spread(LegalSchedules(matched.sequence, ports().model, Dataflow::kProduct), count)) {
      plans.push_back(UnfusedPlanOf(*chain, BucketOf(rows), s, s).value());
    }
    ASSERT_FALSE(plans.empty());
    BuildOptions options;
    options.codegen.jitter = jitter;
    const auto built = BuildPlans(ports(), chain, plans, options);
    const auto runs = Runs(*chain, rows, bounds, positive);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      ExpectRows(*runs, *built[i], {rows, rows - rows / 3, int64_t{1}}, 2);
    }
    Print(absl::StrCat(name, " ", plans.size(), " schedules"), *runs);
  }
};

TEST_F(Fp8, ProductAtEveryM) {
  EveryM("row x column",
         ChainOf("scaled_matmul m=1 n=776 k=1024 scales=row act=silu bias1=1 dtype=f32"),
         kPromoted);
  EveryM("tensor, tail of k", ChainOf("scaled_matmul m=1 n=523 k=1040 scales=tensor bias1=1"),
         kBF16);
}

TEST_F(Fp8, BlockScalesAtEveryM) {
  EveryM("1 x 128 by 128 x 128",
         ChainOf("scaled_matmul m=1 n=776 k=1024 scales=group bias1=1 dtype=f32"), kPromoted);
  EveryM("gated, group",
         ChainOf("scaled_gated_ffn m=1 n=640 k=512 l=520 scales=group "
                 "quantize=group act=silu bias1=1 bias2=1"),
         kRequantised);
}

TEST_F(Fp8, BlockScaleSchedules) {
  const Chain chain = ChainOf("scaled_matmul m=1 n=1032 k=2048 scales=group dtype=f32");
  Schedules("blocks", chain, {8, 40, 200}, 20, kPromoted);
  Schedules("blocks, pauses", chain, {40}, 6, kPromoted, true);
}

// Column-major scales of rows, as other quantisers store them, and padded rows of scales. Bytes
// between the values are scales too, which a wrong index would read.
TEST_F(Fp8, StridedScalesAtEveryM) {
  EveryM("columns 304 apart", StridedScales(776, 1024, true, "1, 304", ""), kPromoted);
  EveryM("padded", StridedScales(776, 1024, true, "11, 1", "9, 1"), kPromoted);
  EveryM("columns of the weights", StridedScales(776, 1024, true, "", "1, 7"), kPromoted);
  EveryM("vectors", StridedScales(776, 1024, false, "3, 1", "2, 1"), kPromoted);
}

// Strides of M elements change with each launch's m, so each has inputs of its own.
TEST_F(Fp8, ScalesThatLieMApart) {
  const Chain chain = StridedScales(776, 1024, true, "1, 1*M", "");
  for (const int64_t m : {1, 7, 64, 129, 300}) {
    const auto plans = PrepareAll(engine(), {{&chain, m, PrepareOptions::Choice::kBest}});
    ASSERT_OK(plans[0]);
    const auto runs = Runs(chain, m, kPromoted);
    ExpectRows(*runs, Got(runs->Bind(*plans[0])), {m});
  }
}

TEST_F(Fp8, StridedScaleSchedules) {
  const Chain chain = StridedScales(1032, 2048, true, "1, 208", "17, 1");
  Schedules("strided", chain, {8, 40, 200}, 12, kPromoted);
}

// The chosen plan of `chain` with schedules from all over the space for its first kernel, twice
// each. `check` gets the first m rows of each output.
template <typename CheckOutput>
void FirstKernels(const Ports& ports, const Chain& made, DeviceChain& runs, int64_t rows,
                  size_t count, size_t kernels, const CheckOutput& check, bool jitter = false) {
  const auto chain = std::make_shared<const Chain>(made);
  const auto planned = Got(PlanChain(*chain, BucketOf(rows), ports.model, FusionOptions{}));
  ASSERT_EQ(planned.chosen.kernels.size(), kernels) << planned.chosen.ToText();
  std::vector<Plan> plans;
  const ProductSequence& sequence = ProductOf(planned.chosen.kernels[0].spec).sequence;
  for (const Schedule& s :
       Spread(LegalSchedules(sequence, ports.model, Dataflow::kProduct), count)) {
    plans.push_back(planned.chosen);
    ProductIn(&plans.back().kernels[0].spec).schedule = s;
  }
  ASSERT_FALSE(plans.empty());
  BuildOptions options;
  options.codegen.jitter = jitter;
  const auto built = BuildPlans(ports, chain, plans, options);
  for (size_t i = 0; i < plans.size(); ++i) {
    SCOPED_TRACE(plans[i].ToText());
    ASSERT_OK(built[i]);
    const auto run = Got(runs.Bind(*built[i]));
    for (int64_t m : {rows, rows - rows / 3, int64_t{1}}) {
      const auto output = Got(runs.Run(run, m)), again = Got(runs.Run(run, m));
      EXPECT_TRUE(output == again) << "m " << m;
      check(output, m);
    }
  }
}

// Codes that a kernel stores equal the codes of the float64 rule, except for few whose quotient is
// near the border of two codes: those are one code away. 1.1 % of them are expected.
TEST_F(Fp8, QuantisesResultsInTheirKernel) {
  constexpr int64_t kMostRows = 200;
  constexpr double kSame = 1e-3, kOneCode = 0.14, kLeast = 4e-3, kMostFlipped = 0.02;
  for (const Granularity granularity : {Granularity::kGroup, Granularity::kStatic}) {
    const Chain chain = CodesOf(granularity);
    const auto runs = Got(DeviceChain::Make(
        ports(), chain, kMostRows, WithIdentity(chain, Got(InputsOf(chain, kMostRows, false))),
        kRequantised));
    const std::vector<double>& want = *Got(runs->Reference());
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    size_t flipped = 0, codes = 0;
    const auto check = [&](const std::string& output, int64_t m) {
      const auto got = Got(OutputValues(chain, 0, m, output));
      for (size_t i = 0; i < got.size(); ++i) {
        const double off = std::abs(got[i] - want[i]), size = std::abs(want[i]);
        if (!(off <= kSame * size)) {
          ++flipped;
          ASSERT_LE(off, kOneCode * size + kLeast * largest) << i << " m " << m;
        }
      }
      codes += got.size();
    };
    for (const int64_t rows : {8, 40, 200}) FirstKernels(ports(), chain, *runs, rows, 16, 2, check);
    FirstKernels(ports(), chain, *runs, 40, 6, 2, check, true);
    std::printf("FIGURE %s: %zu of %zu codes flipped\n", std::string(NameOf(granularity)).c_str(),
                flipped, codes);
    EXPECT_LE(static_cast<double>(flipped), kMostFlipped * static_cast<double>(codes));
  }
}

TEST_F(Fp8, FfnAtEveryM) {
  EveryM("gated, row",
         ChainOf("scaled_gated_ffn m=1 n=640 k=512 l=520 scales=row quantize=row "
                 "act=silu bias1=1 bias2=1"),
         kRequantised);
  EveryM("gated, static",
         ChainOf("scaled_gated_ffn m=1 n=384 k=256 l=264 scales=tensor "
                 "quantize=static act=silu"),
         kRequantised);
  EveryM("plain, row",
         ChainOf("scaled_gemm_chain m=1 n=400 k=304 l=264 scales=row quantize=row act=gelu_erf"),
         kRequantised);
}

TEST_F(Fp8, LayerAtEveryM) {
  EveryM("norm to residual", Layer(640, 512, Granularity::kRow), kRequantised);
}

TEST_F(Fp8, ProductSchedules) {
  const Chain chain = ChainOf("scaled_matmul m=1 n=1032 k=2064 scales=row dtype=f32");
  Schedules("product", chain, {8, 40, 128, 200}, 24, kPromoted);
}

TEST_F(Fp8, PairSchedules) {
  Schedules("pair f32", GatedPair(776, 1040, ""), {16, 64, 200}, 16, Bounds{6e-4, 6e-3, 0});
  Schedules("pair bf16", GatedPair(776, 1040, "bf16"), {16, 64, 200}, 12, kBF16);
}

TEST_F(Fp8, SchedulesWithPauses) {
  Schedules("product, pauses", ChainOf("scaled_matmul m=1 n=520 k=784 scales=row"), {40}, 8, kBF16,
            true);
  Schedules("pair, pauses", GatedPair(520, 784, ""), {200}, 8, Bounds{6e-4, 6e-3, 0}, true);
}

// Sums of positive terms that the tensor cores do not promote are 6 % off at this k.
TEST_F(Fp8, SumsArePromoted) {
  const Chain chain = ChainOf("scaled_matmul m=1 n=264 k=4096 scales=row dtype=f32");
  Schedules("biased", chain, {16, 128}, 12, kBiased, false, true);
}

// Within the bounds of their k, on kernels from all over the space.
TEST_F(Fp8, FastSumsOnEverySchedule) {
  const Chain chain =
      ChainOf("scaled_matmul m=1 n=1032 k=2064 scales=row dtype=f32 accumulate=fast");
  const Bounds bounds = BoundsOf(chain, 0);
  Schedules("fast", chain, {8, 40, 128, 200}, 24, bounds);
  Schedules("fast, pauses", chain, {40}, 8, bounds, true);
}

TEST_F(Fp8, FastSumsAtEveryM) {
  const Chain chain = ChainOf(
      "scaled_matmul m=1 n=776 k=4096 scales=row act=silu bias1=1 dtype=f32 accumulate=fast");
  EveryM("row x column, fast", chain, BoundsOf(chain, 0));
  EveryM("gated, static, fast",
         ChainOf("scaled_gated_ffn m=1 n=640 k=512 l=520 scales=row quantize=static act=silu "
                 "bias1=1 bias2=1 accumulate=fast"),
         kRequantised);
}

// The two forms of one product on the same positive terms: promoted sums are right, and fast ones
// so far off that their kernels cannot have promoted them.
TEST_F(Fp8, FastSumsStayInTheTensorCores) {
  constexpr Bounds kCoarse{0.15, 0.2, 0};
  const std::string line = "scaled_matmul m=1 n=264 k=4096 scales=row dtype=f32 accumulate=";
  for (const int64_t rows : {16, 128}) {
    for (const bool is_fast : {false, true}) {
      SCOPED_TRACE(absl::StrCat(rows, is_fast ? " fast" : " promoted"));
      const Chain chain = ChainOf(line + (is_fast ? "fast" : "promoted"));
      const auto runs = Runs(chain, rows, kCoarse, true);
      const auto run = Got(runs->Bind(Got(engine()->Prepare(chain, rows, PrepareOptions{}))));
      const auto output = Got(runs->Run(run, rows));
      EXPECT_OK(runs->Check(output, rows));
      EXPECT_EQ(runs->Check(output, rows, kBiased).ok(), !is_fast);
      Print(absl::StrCat("positive ", rows, is_fast ? " fast" : " promoted"), *runs);
    }
  }
}

// Sums are exact: what is left are the roundings of the scales and of the bias in f32.
TEST_F(Fp8, ProductsOfS8) {
  constexpr Bounds kExact{1e-6, 1e-5, 0};
  EveryM("s8, row x column",
         ChainOf("scaled_matmul m=1 n=776 k=1040 scales=row codes=s8 bias1=1 dtype=f32"), kExact);
  EveryM("s8, tensor", ChainOf("scaled_matmul m=1 n=523 k=1024 scales=tensor codes=s8 act=silu"),
         kBF16);
  EveryM("s8, gated",
         ChainOf("scaled_gated_ffn m=1 n=640 k=512 l=520 codes=s8 act=silu bias1=1 bias2=1"),
         kRequantised);
  const Chain chain = ChainOf("scaled_matmul m=1 n=1032 k=4096 scales=row codes=s8 dtype=f32");
  Schedules("s8", chain, {8, 48, 128, 200}, 16, kExact);
  Schedules("s8, pauses", chain, {48}, 6, kExact, true);
}

// Device headers with a step of promotion, of scales or of quantising taken out: each shows.
TEST_F(Fp8, MutantsAreCaught) {
  constexpr char kBlock[] = "kernels/block.cuh", kScales[] = "tile/block_scales.cuh",
                 kScaling[] = "tile/scaling.cuh";
  constexpr Dataflow kFlow = Dataflow::kProduct;
  const Chain rows = ChainOf("scaled_matmul m=1 n=264 k=4096 scales=row dtype=f32");
  const Chain blocks = ChainOf("scaled_matmul m=1 n=520 k=1024 scales=group dtype=f32");
  struct Case {
    Mutation mutation;
    const Chain& chain;
    bool positive = false;
  };
  const Case cases[] = {
      {{"nothing", kBlock, "", "", kFlow}, rows, true},
      {{"sums are never promoted", kBlock, "if constexpr (P::Element::kPromoted)",
        "if constexpr (false)", kFlow},
       rows,
       true},
      {{"the part of a sum replaces it", kScales, "return fresh * scale + sum;",
        "return fresh * scale;", kFlow},
       blocks},
      {{"rows have each other's scales", kScales, "i % 4 / 2]", "1 - i % 4 / 2]", kFlow}, blocks},
      {{"all of K has the first scale of its row", kScales, "rows_ += RowsAt::group(this->m());",
        ";", kFlow},
       blocks},
      {{"columns have the scales of the next 128 of K", kScales, "at = step(&matrices_[matrix])",
        "at = step(&matrices_[matrix]) + 1", kFlow},
       blocks},
      {{"columns have the first one's factor", kScaling,
        "load_pair<Element, kCount, kOne ? 0 : kStride>(vector, column)",
        "load_pair<Element, kCount, 0>(vector, column)", kFlow},
       rows},
  };
  constexpr int64_t kRows = 128;
  constexpr int64_t kOnePart = 64;  // accumulators that are one part
  for (const Case& c : cases) {
    SCOPED_TRACE(c.mutation.name);
    const auto chain = std::make_shared<const Chain>(c.chain);
    const auto matched = Got(MatchProducts(*chain, BucketOf(kRows)));
    std::vector<Schedule> fitting;
    for (const Schedule& s : LegalSchedules(matched.sequence, ports().model, kFlow)) {
      const bool one_part = AccumulatorsOf(s, s.first, 1) <= kOnePart;
      if (!s.swapped && one_part && s.first.split_k == 1) fitting.push_back(s);
    }
    std::vector<Plan> plans;
    for (const Schedule& s : Spread(fitting, 3)) {
      plans.push_back(UnfusedPlanOf(*chain, BucketOf(kRows), s, s).value());
    }
    BuildOptions options;
    options.edit = [&](CompileRequest* request) { EXPECT_OK(Apply(c.mutation, request)); };
    const auto built = BuildPlans(ports(), chain, plans, options);
    const auto runs = Runs(*chain, kRows, c.positive ? kBiased : kPromoted, c.positive);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      const auto output = Got(runs->Run(Got(runs->Bind(*built[i])), kRows));
      const bool right = runs->Check(output, kRows).ok();
      EXPECT_EQ(right, c.mutation.find.empty());
    }
  }
}

// A NaN code or scale reaches only its row: all others keep their bits.
TEST_F(Fp8, NanStaysInItsRow) {
  constexpr int64_t kRows = 37, kColumns = 520, kK = 384, kBadCode = 5, kBadScale = 30;
  const Chain chain =
      ChainOf(absl::StrCat("scaled_matmul m=1 n=", kColumns, " k=", kK, " scales=row dtype=f32"));
  const auto runs = Runs(chain, kRows, kPromoted);
  const auto run = Got(runs->Bind(Got(engine()->Prepare(chain, kRows, PrepareOptions{}))));
  const auto clean = Got(runs->Run(run, kRows));
  ASSERT_OK(runs->Check(clean, kRows));
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const TensorType& type = chain.input_op(i).type;
    if (!type.dims.front().symbolic) continue;
    std::string bytes = runs->inputs()[static_cast<size_t>(i)];
    if (type.dtype == DType::kE4M3) {
      bytes[kBadCode * kK + 77] = static_cast<char>(kNanCode);
    } else {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(&bytes[kBadScale * sizeof nan], &nan, sizeof nan);
    }
    ASSERT_OK(runs->Replace(i, bytes));
  }
  const auto dirty = Got(runs->Run(run, kRows));
  for (int64_t row = 0; row < kRows; ++row) {
    const size_t at = static_cast<size_t>(row * kColumns) * sizeof(float);
    const size_t size = kColumns * sizeof(float);
    if (row != kBadCode && row != kBadScale) {
      EXPECT_EQ(clean.compare(at, size, dirty, at, size), 0) << row;
      continue;
    }
    for (size_t i = at; i < at + size; i += sizeof(float)) {
      float value;
      std::memcpy(&value, dirty.data() + i, sizeof value);
      ASSERT_TRUE(std::isnan(value)) << row;
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::fp8
