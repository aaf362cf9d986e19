// Products of e4m3 and s8 operands: every number of rows, schedules of every kind, a biased input
// that shows missing promotion, rows with NaN, and whole layers whose intermediate is quantised.
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/mutations.h"
#include "tests/support/product_in.h"

namespace sinter::gpu_testing::fp8 {
namespace {

constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type
constexpr uint64_t kGuardBytes = 8192;
constexpr uint8_t kNanCode = 0x7f;

// RMS and largest error over the RMS of the result: promoted sums stored in f32, a bf16 result,
// all-positive data, and a quantized intermediate, some of whose codes flip.
constexpr Bounds kPromoted{3e-4, 3e-3, 0}, kBF16{2.5e-3, 0.01, 0}, kBiased{1e-3, 3e-3, 0};
constexpr Bounds kRequantised{1e-2, 0.3, 0};

// A chain of one output on the device, and its float64 reference of all rows.
class ScaledRuns {
 public:
  static absl::StatusOr<std::unique_ptr<ScaledRuns>> Make(const Ports& ports, const Chain& chain,
                                                          int64_t rows,
                                                          std::vector<std::string> inputs) {
    std::unique_ptr<ScaledRuns> made(new ScaledRuns(ports, chain, std::move(inputs)));
    for (const std::string& input : made->inputs_) {
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, made->arena_.Allocate(input.size()));
      SINTER_RETURN_IF_ERROR(ports.measurer->Upload(buffer, input.data(), input.size()));
      made->buffers_.push_back(buffer);
    }
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain, 0, rows));
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer output,
                            made->arena_.Allocate(static_cast<uint64_t>(bytes) + kGuardBytes));
    made->buffers_.push_back(output);
    SINTER_RETURN_IF_ERROR(made->SetReference(rows));
    return made;
  }

  absl::StatusOr<BoundRun> Bind(const LoadedPlanPtr& plan) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, Workspace(plan->plan.workspace_bytes));
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait([&](StreamHandle stream) {
      return ClearHeader(plan->plan, *ports_.loader, workspace.ptr, stream);
    }));
    std::vector<DevicePtr> pointers;
    for (const DeviceBuffer& buffer : buffers_) pointers.push_back(buffer.ptr);
    SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const BoundPlan> bound,
                            BindPlan(plan, pointers, workspace.ptr));
    return BoundRun{[bound](StreamHandle stream, int64_t m, bool pdl) {
                      return EnqueuePlan(*bound, stream, m, pdl);
                    },
                    workspace};
  }
  absl::StatusOr<BoundRun> Bind(const PreparedPlanPtr& plan) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, Workspace(plan->WorkspaceBytes()));
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait([&](StreamHandle stream) {
      return plan->InitWorkspace(workspace.ptr, workspace.bytes, stream);
    }));
    std::vector<DevicePtr> caller(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) caller[i] = buffers_[i].ptr;
    const std::vector<int32_t>& order = chain_.InputOrder();
    for (size_t i = 0; i < order.size(); ++i) caller[order[i]] = buffers_[i].ptr;
    SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const PlanBinding> binding,
                            plan->Bind(caller, workspace.ptr));
    return BoundRun{[plan, binding](StreamHandle stream, int64_t m, bool pdl) {
                      return plan->Launch(*binding, stream, m, pdl);
                    },
                    workspace};
  }

  // One launch into poison; the whole output with its guard.
  absl::StatusOr<std::string> Run(const BoundRun& run, int64_t m) {
    SINTER_RETURN_IF_ERROR(ports_.measurer->Fill(buffers_.back(), kPoison));
    if (run.workspace.bytes > kWorkspaceFlagBytes) {
      SINTER_RETURN_IF_ERROR(ports_.measurer->Fill(
          {run.workspace.ptr + kWorkspaceFlagBytes, run.workspace.bytes - kWorkspaceFlagBytes},
          kPoison));
    }
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait(
        [&](StreamHandle stream) { return run.launch(stream, m, false); }));
    std::string bytes(buffers_.back().bytes, '\0');
    SINTER_RETURN_IF_ERROR(ports_.measurer->Download(&bytes[0], buffers_.back(), bytes.size()));
    return bytes;
  }

  // OK if the first m rows are within `bounds` and nothing past them was written.
  absl::Status Check(const std::string& output, int64_t m, const Bounds& bounds) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<double> got, OutputValues(chain_, 0, m, output));
    const absl::Span<const double> want(reference_.data(), got.size());
    const ErrorMeasure errors = Compare(got, want, chain_.output_type(0).dtype);
    worst_.relative = std::max(worst_.relative, errors.relative);
    worst_.max = std::max(worst_.max, errors.max_over_rms);
    if (!errors.Within(bounds)) {
      return absl::DataLossError(absl::StrCat("wrong at m ", m, ": ", errors.ToString()));
    }
    SINTER_ASSIGN_OR_RETURN(const int64_t written, OutputBytes(chain_, 0, m));
    for (size_t i = static_cast<size_t>(written); i < output.size(); ++i) {
      if (static_cast<uint8_t>(output[i]) == kPoison) continue;
      return absl::DataLossError(absl::StrCat("byte ", i, " behind m ", m, " was written"));
    }
    return absl::OkStatus();
  }

  absl::Status Replace(int input, const std::string& bytes) {
    return ports_.measurer->Upload(buffers_[static_cast<size_t>(input)], bytes.data(),
                                   bytes.size());
  }
  const std::vector<double>& reference() const { return reference_; }
  const std::string& input(int canonical) const { return inputs_[static_cast<size_t>(canonical)]; }

  // A line of figures: the worst errors so far.
  void Print(const std::string& name) const {
    std::printf("FIGURE %s relative %.3g largest %.3g\n", name.c_str(), worst_.relative,
                worst_.max);
  }

 private:
  ScaledRuns(const Ports& ports, const Chain& chain, std::vector<std::string> inputs)
      : ports_(ports), chain_(chain), arena_(ports.measurer.get()), inputs_(std::move(inputs)) {}

  absl::StatusOr<DeviceBuffer> Workspace(uint64_t bytes) {
    if (bytes == 0) return DeviceBuffer{};
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, arena_.Allocate(bytes));
    SINTER_RETURN_IF_ERROR(ports_.measurer->Fill(workspace, kPoison));
    return workspace;
  }

  absl::Status SetReference(int64_t rows) {
    std::vector<const void*> pointers;
    for (const std::string& input : inputs_) pointers.push_back(input.data());
    SINTER_ASSIGN_OR_RETURN(auto outputs,
                            RunReferenceF64(chain_, rows, pointers, {.skip_final_cast = true}));
    reference_ = std::move(outputs[0]);
    return absl::OkStatus();
  }

  const Ports& ports_;
  const Chain chain_;
  DeviceArena arena_;
  const std::vector<std::string> inputs_;  // canonical
  std::vector<DeviceBuffer> buffers_;      // and the output
  std::vector<double> reference_;
  Bounds worst_;
};

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

// act(gate) * up of one scale a row and a column, as `result`.
Chain GatedPair(int64_t n, int64_t k, DType result) {
  ChainBuilder b;
  const auto codes = [&](Dim rows) {
    const ValueId value =
        b.Input({DType::kE4M3, {rows, Dim::Constant(k)}}, {!rows.symbolic, {}, ""}).value();
    const ValueId scale =
        b.Input({DType::kF32, {rows, Dim::Constant(1)}}, {!rows.symbolic, {}, ""}).value();
    return Scaled{value, scale};
  };
  const Scaled a = codes(Dim::M()), gate = codes(Dim::Constant(n)), up = codes(Dim::Constant(n));
  const ValueId g = AddScaledLinear(b, a, gate, kNoValue, Activation::kSilu).value();
  const ValueId u = AddScaledLinear(b, a, up, kNoValue, Activation::kIdentity).value();
  ValueId y = b.Binary(BinaryKind::kMul, g, u).value();
  if (result != DType::kF32) y = b.Cast(y, result).value();
  EXPECT_TRUE(b.Output(y).ok());
  return b.Finish().value();
}

// A GEMM of [n, k] weights, as f32, whose scales have the given strides. `of_rows`: for the scales
// of the rows' groups or, without `groups`, of the rows. `of_weights`: for the scales of blocks or
// columns of the weights.
Chain StridedScales(int64_t n, int64_t k, bool groups, const std::vector<Stride>& of_rows,
                    const std::vector<Stride>& of_weights) {
  ChainBuilder b;
  const auto codes = [&](Dim rows, Dim scaled, const std::vector<Stride>& strides) {
    const bool weights = !rows.symbolic;
    const ValueId value =
        b.Input({DType::kE4M3, {rows, Dim::Constant(k)}}, {weights, {}, ""}).value();
    const Dim columns = Dim::Constant(groups ? k / 128 : 1);
    return Scaled{value, b.Input({DType::kF32, {scaled, columns}}, {weights, strides, ""}).value()};
  };
  const Dim blocks = Dim::Constant(groups ? (n + 127) / 128 : n);
  const Scaled a = codes(Dim::M(), Dim::M(), of_rows);
  const Scaled w = codes(Dim::Constant(n), blocks, of_weights);
  EXPECT_TRUE(b.Output(AddScaledLinear(b, a, w).value()).ok());
  return b.Finish().value();
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
  EXPECT_TRUE(b.Output(b.Cast(sum, DType::kBF16).value()).ok());
  return b.Finish().value();
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

class Fp8 : public GpuTest {
 protected:
  static constexpr int64_t kMost = 300;

  // Every m from 1 to 300 with the plan of its bucket.
  static void EveryM(const std::string& name, const Chain& chain, const Bounds& bounds,
                     bool positive = false) {
    std::vector<PlanJob> jobs;
    for (int64_t m = 1; m <= kMost; ++m) {
      if (jobs.empty() || BucketOf(jobs.back().m) != BucketOf(m)) {
        jobs.push_back({&chain, m, PrepareOptions::Choice::kBest});
      }
    }
    const auto plans = PrepareAll(engine(), jobs);
    auto inputs = Got(InputsOf(chain, kMost, positive));
    const auto runs = Got(ScaledRuns::Make(ports(), chain, kMost, std::move(inputs)));
    std::map<int64_t, BoundRun> bound;
    for (size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_OK(plans[i]) << name << " bucket " << BucketOf(jobs[i].m);
      const auto run = Got(runs->Bind(*plans[i]));
      bound[BucketOf(jobs[i].m)] = run;
    }
    for (int64_t m = 1; m <= kMost; ++m) {
      const auto output = runs->Run(bound[BucketOf(m)], m);
      ASSERT_OK(output) << name << " m " << m;
      ASSERT_OK(runs->Check(*output, m, bounds)) << name << " bucket " << BucketOf(m);
    }
    runs->Print(name);
  }

  // Schedules from all over the space, at some numbers of rows, twice each.
  static void Schedules(const std::string& name, const Chain& made, int64_t rows, size_t count,
                        const Bounds& bounds, bool jitter = false, bool positive = false) {
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
    auto inputs = Got(InputsOf(*chain, rows, positive));
    const auto runs = Got(ScaledRuns::Make(ports(), *chain, rows, std::move(inputs)));
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      const auto run = Got(runs->Bind(*built[i]));
      for (int64_t m : {rows, rows - rows / 3, int64_t{1}}) {
        const auto output = Got(runs->Run(run, m)), again = Got(runs->Run(run, m));
        EXPECT_OK(runs->Check(output, m, bounds));
        EXPECT_TRUE(output == again) << "m " << m;
      }
    }
    runs->Print(absl::StrCat(name, " ", plans.size(), " schedules"));
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
  for (const int64_t rows : {8, 40, 200}) {
    Schedules(absl::StrCat("blocks ", rows), chain, rows, 20, kPromoted);
  }
  Schedules("blocks, pauses", chain, 40, 6, kPromoted, true);
}

// Column-major scales of rows, as other quantisers store them, and padded rows of scales. Bytes
// between the values are scales too, which a wrong index would read.
TEST_F(Fp8, StridedScalesAtEveryM) {
  const Stride one{1, 0};
  const auto blocks = [](std::vector<Stride> rows, std::vector<Stride> weights) {
    return StridedScales(776, 1024, true, rows, weights);
  };
  EveryM("columns 304 apart", blocks({one, {304, 0}}, {}), kPromoted);
  EveryM("padded", blocks({{11, 0}, one}, {{9, 0}, one}), kPromoted);
  EveryM("columns of the weights", blocks({}, {one, {7, 0}}), kPromoted);
  EveryM("vectors", StridedScales(776, 1024, false, {{3, 0}, one}, {{2, 0}, one}), kPromoted);
}

// Strides of M elements change with each launch's m, so each has inputs of its own.
TEST_F(Fp8, ScalesThatLieMApart) {
  const Chain chain = StridedScales(776, 1024, true, {{1, 0}, {1, 1}}, {});
  for (const int64_t m : {1, 7, 64, 129, 300}) {
    const auto plans = PrepareAll(engine(), {{&chain, m, PrepareOptions::Choice::kBest}});
    ASSERT_OK(plans[0]);
    auto inputs = Got(InputsOf(chain, m, false));
    const auto runs = Got(ScaledRuns::Make(ports(), chain, m, std::move(inputs)));
    const auto run = Got(runs->Bind(*plans[0]));
    const auto output = Got(runs->Run(run, m));
    EXPECT_OK(runs->Check(output, m, kPromoted));
  }
}

TEST_F(Fp8, StridedScaleSchedules) {
  const Chain chain = StridedScales(1032, 2048, true, {{1, 0}, {208, 0}}, {{17, 0}, {1, 0}});
  for (const int64_t rows : {8, 40, 200}) {
    Schedules(absl::StrCat("strided ", rows), chain, rows, 12, kPromoted);
  }
}

// The chosen plan of `chain` with schedules from all over the space for its first kernel, twice
// each. `check` gets the first m rows of each output.
template <typename CheckOutput>
void FirstKernels(const Ports& ports, const Chain& made, ScaledRuns& runs, int64_t rows,
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
    auto inputs = Got(InputsOf(chain, kMostRows, false));
    const auto runs =
        Got(ScaledRuns::Make(ports(), chain, kMostRows, WithIdentity(chain, std::move(inputs))));
    const std::vector<double>& want = runs->reference();
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
    for (const int64_t rows : {8, 40, 200}) {
      FirstKernels(ports(), chain, *runs, rows, 16, 2, check);
    }
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
  for (const int64_t rows : {8, 40, 128, 200}) {
    Schedules(absl::StrCat("product ", rows), chain, rows, 24, kPromoted);
  }
}

TEST_F(Fp8, PairSchedules) {
  for (const int64_t rows : {16, 64, 200}) {
    Schedules(absl::StrCat("pair f32 ", rows), GatedPair(776, 1040, DType::kF32), rows, 16,
              Bounds{6e-4, 6e-3, 0});
    Schedules(absl::StrCat("pair bf16 ", rows), GatedPair(776, 1040, DType::kBF16), rows, 12,
              kBF16);
  }
}

TEST_F(Fp8, SchedulesWithPauses) {
  Schedules("product, pauses", ChainOf("scaled_matmul m=1 n=520 k=784 scales=row"), 40, 8, kBF16,
            true);
  Schedules("pair, pauses", GatedPair(520, 784, DType::kF32), 200, 8, Bounds{6e-4, 6e-3, 0}, true);
}

// Sums of positive terms that the tensor cores do not promote are 6 % off at this k.
TEST_F(Fp8, SumsArePromoted) {
  const Chain chain = ChainOf("scaled_matmul m=1 n=264 k=4096 scales=row dtype=f32");
  for (const int64_t rows : {16, 128}) {
    Schedules(absl::StrCat("biased ", rows), chain, rows, 12, kBiased, false, true);
  }
}

// Within the bounds of their k, on kernels from all over the space.
TEST_F(Fp8, FastSumsOnEverySchedule) {
  const Chain chain =
      ChainOf("scaled_matmul m=1 n=1032 k=2064 scales=row dtype=f32 accumulate=fast");
  const Bounds bounds = BoundsOf(chain, 0);
  for (const int64_t rows : {8, 40, 128, 200}) {
    Schedules(absl::StrCat("fast ", rows), chain, rows, 24, bounds);
  }
  Schedules("fast, pauses", chain, 40, 8, bounds, true);
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
      auto inputs = Got(InputsOf(chain, rows, true));
      const auto runs = Got(ScaledRuns::Make(ports(), chain, rows, std::move(inputs)));
      const auto plan = Got(engine()->Prepare(chain, rows, PrepareOptions{}));
      const auto run = Got(runs->Bind(plan));
      const auto output = Got(runs->Run(run, rows));
      EXPECT_OK(runs->Check(output, rows, kCoarse));
      EXPECT_EQ(runs->Check(output, rows, kBiased).ok(), !is_fast);
      runs->Print(absl::StrCat("positive ", rows, is_fast ? " fast" : " promoted"));
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
  for (const int64_t rows : {8, 48, 128, 200}) {
    Schedules(absl::StrCat("s8 ", rows), chain, rows, 16, kExact);
  }
  Schedules("s8, pauses", chain, 48, 6, kExact, true);
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
    auto inputs = Got(InputsOf(*chain, kRows, c.positive));
    const auto runs = Got(ScaledRuns::Make(ports(), *chain, kRows, std::move(inputs)));
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      const auto run = Got(runs->Bind(*built[i]));
      const auto output = Got(runs->Run(run, kRows));
      const bool right = runs->Check(output, kRows, c.positive ? kBiased : kPromoted).ok();
      EXPECT_EQ(right, c.mutation.find[0] == '\0');
    }
  }
}

// A NaN code or scale reaches only its row: all others keep their bits.
TEST_F(Fp8, NanStaysInItsRow) {
  constexpr int64_t kRows = 37, kColumns = 520, kK = 384, kBadCode = 5, kBadScale = 30;
  const Chain chain =
      ChainOf(absl::StrCat("scaled_matmul m=1 n=", kColumns, " k=", kK, " scales=row dtype=f32"));
  auto inputs = Got(InputsOf(chain, kRows, false));
  const auto runs = Got(ScaledRuns::Make(ports(), chain, kRows, std::move(inputs)));
  const auto plan = Got(engine()->Prepare(chain, kRows, PrepareOptions{}));
  const auto run = Got(runs->Bind(plan));
  const auto clean = Got(runs->Run(run, kRows));
  ASSERT_OK(runs->Check(clean, kRows, kPromoted));
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const TensorType& type = chain.input_op(i).type;
    if (!type.dims.front().symbolic) continue;
    std::string bytes = runs->input(i);
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
