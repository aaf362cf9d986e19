// GEMMs of transposed rows, as in gradients of weights: x^T dy. Sums over M at every kind of M,
// with NaN rows past M in both operands; over the space of schedules; of values that other kernels
// compute; of rows and columns of any number; of a K that is known.
#include "tests/gpu/gpu_tests.h"
#include "tests/support/pointers.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::transposed {
namespace {

Dim D(int64_t extent) { return Dim::Constant(extent); }

// A chain's tensors, and what its outputs must be. One thread.
class Data {
 public:
  Data(const Ports& ports, Chain chain, int64_t most, uint64_t seed)
      : chain_(std::make_shared<const Chain>(std::move(chain))),
        tensors_(Got(
            DeviceTensors::Make(ports, *chain_, most, Got(RandomInputs(*chain_, most, seed))))) {}

  const std::shared_ptr<const Chain>& chain() const { return chain_; }
  template <typename PlanPtr>
  BoundRun Bind(const PlanPtr& plan) {
    return Got(tensors_->Bind(plan));
  }

  // Two runs at `m` rows: within the bounds, the same bytes, nothing written past the outputs.
  absl::Status Check(const BoundRun& run, int64_t m) {
    SINTER_RETURN_IF_ERROR(Fill(m));
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> first, tensors_->RunAll(run, m));
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> again, tensors_->RunAll(run, m));
    if (first != again) return absl::DataLossError(absl::StrCat("m ", m, ": other bytes again"));
    SINTER_ASSIGN_OR_RETURN(const Outputs* want, Reference(m));
    for (int i = 0; i < chain_->num_outputs(); ++i) {
      const std::string& bytes = first[static_cast<size_t>(i)];
      SINTER_ASSIGN_OR_RETURN(const std::vector<double> got, OutputValues(*chain_, i, m, bytes));
      const ErrorMeasure errors =
          Compare(got, (*want)[static_cast<size_t>(i)], chain_->output_type(i).dtype);
      if (!errors.Within(BoundsOf(*chain_, i))) {
        return absl::DataLossError(
            absl::StrCat("wrong at m ", m, ", output ", i, ": ", errors.ToString()));
      }
      SINTER_RETURN_IF_ERROR(
          DeviceTensors::CheckGuard(bytes, static_cast<size_t>(*OutputBytes(*chain_, i, m))));
    }
    return absl::OkStatus();
  }

 private:
  using Outputs = std::vector<std::vector<double>>;

  // In float64, computed once.
  absl::StatusOr<const Outputs*> Reference(int64_t m) {
    const auto known = references_.find(m);
    if (known != references_.end()) return &known->second;
    SINTER_ASSIGN_OR_RETURN(references_[m],
                            RunReferenceF64(*chain_, m, PointersTo(tensors_->inputs())));
    return &references_[m];
  }

  // The first `m` rows of each input, followed by NaN.
  absl::Status Fill(int64_t m) {
    for (int i = 0; i < chain_->num_inputs(); ++i) {
      std::string bytes = tensors_->inputs()[static_cast<size_t>(i)];
      const auto used = static_cast<std::ptrdiff_t>(*InputBytes(*chain_, i, m));
      std::fill(bytes.begin() + used, bytes.end(), static_cast<char>(kPoison));
      SINTER_RETURN_IF_ERROR(tensors_->Replace(i, bytes));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const Chain> chain_;
  const std::unique_ptr<DeviceTensors> tensors_;
  std::map<int64_t, Outputs> references_;  // by m
};

// x^T dy, [rows, n]. `k`: M, or a number of tokens.
struct Gradient {
  Dim k;
  int64_t rows, n;
  DType dtype = DType::kBF16;
  bool f32 = false;       // the result
  bool pair = false;      // silu(x^T dy) (x^T dz)
  bool full = false;      // with a bias, a factor of each row and a residual
  bool along_k = false;   // the second operand lies as [n, k]
  bool computed = false;  // both are functions of inputs
};

Chain ChainOf(const Gradient& g) {
  const std::string k = g.k.symbolic ? "M" : absl::StrCat(g.k.value), dtype(NameOf(g.dtype));
  const auto matrix = [&](const std::string& rows, const std::string& columns) {
    const std::string input = absl::Substitute("{$0[$1,$2]}", dtype, rows, columns);
    return g.computed ? absl::Substitute("$0(tanh(f32($1)) + 0.25)", dtype, input) : input;
  };
  const std::string rows = absl::StrCat(g.rows), n = absl::StrCat(g.n);
  const std::string product =
      absl::Substitute("(x.T @ $0)", g.along_k ? matrix(n, k) + ".T" : matrix(k, n));
  ChainReader r("x = $0; y = $1", matrix(k, rows), product);
  if (g.full) r.Add("y = y * spread({f32[$0,1]}, y) + spread(f32({$2[$1]}), y)", rows, n, dtype);
  if (g.pair) r.Add("y = silu(y) * $0", product);
  if (g.full) r.Add("y = y + f32({$2[$0,$1]})", rows, n, dtype);
  r.Add("out $0(y)", g.f32 ? "" : dtype);
  return r.Finish();
}

class Transposed : public GpuTest {
 protected:
  static constexpr int64_t kMost = 512;  // a bucket

  // `count` schedules of each, at each of `numbers` of rows.
  static void RunAll(const std::vector<Gradient>& gradients, size_t count, bool jitter,
                     const std::vector<int64_t>& numbers) {
    size_t ran = 0;
    for (const Gradient& g : gradients) {
      const int64_t bucket = BucketOf(kMost);
      Data data(ports(), ChainOf(g), bucket, 47);
      const std::vector<Plan> plans =
          SpreadPlans(*data.chain(), bucket, ports().model, Dataflow::kProduct, count);
      BuildOptions options;
      options.codegen.jitter = jitter;
      const auto built = BuildPlans(ports(), data.chain(), plans, options);
      for (size_t i = 0; i < plans.size(); ++i) {
        SCOPED_TRACE(plans[i].ToText());
        if (jitter && !built[i].ok()) continue;
        ASSERT_OK(built[i]);
        const BoundRun run = data.Bind(*built[i]);
        for (const int64_t m : numbers) ASSERT_OK(data.Check(run, m));
        ++ran;
      }
    }
    std::printf("%zu schedules ran\n", ran);
    EXPECT_GT(ran, 0u);
  }

  static std::vector<Gradient> OverM() {
    return {{Dim::M(), 72, 136},
            {Dim::M(), 264, 520, DType::kF16},
            {Dim::M(), 200, 64, DType::kBF16, true},
            {Dim::M(), 136, 264, DType::kBF16, false, true},
            {Dim::M(), 328, 72, DType::kF16, false, false, true}};
  }

  // Planned, prepared and run by the engine.
  static void RunPlanned(const Gradient& g, const std::vector<int64_t>& numbers, size_t most) {
    const int64_t rows = *std::max_element(numbers.begin(), numbers.end());
    Data data(ports(), ChainOf(g), g.k.symbolic ? BucketOf(rows) : 1, 53);
    for (const auto choice : {PrepareOptions::Choice::kBest, PrepareOptions::Choice::kUnfused}) {
      const auto plan =
          Got(engine()->Prepare(*data.chain(), g.k.symbolic ? rows : 1, {.choice = choice}));
      SCOPED_TRACE(plan->plan().ToText());
      if (most > 0 && choice == PrepareOptions::Choice::kBest) {
        EXPECT_LE(plan->plan().kernels.size(), most);
      }
      const BoundRun run = data.Bind(plan);
      for (const int64_t m : numbers) ASSERT_OK(data.Check(run, m));
    }
  }
};

TEST_F(Transposed, SumsOverMOfEverySchedule) {
  RunAll(OverM(), 10, false, {1, 2, 7, 63, 64, 65, 128, 200, 300, 512});
}
TEST_F(Transposed, SumsOverMAtEveryM) {
  std::vector<int64_t> numbers(kMost);
  for (int64_t m = 1; m <= kMost; ++m) numbers[static_cast<size_t>(m - 1)] = m;
  RunAll({{Dim::M(), 72, 136}}, 3, false, numbers);
}
TEST_F(Transposed, SumsOverMWithPauses) { RunAll(OverM(), 3, true, {1, 65, 300, 512}); }

TEST_F(Transposed, OfAKnownK) {
  RunAll({{D(1000), 264, 136},
          {D(333), 72, 200, DType::kF16},
          {D(520), 136, 131, DType::kBF16, false, false, false, true},
          {D(264), 200, 264, DType::kBF16, false, true, false, true},
          {D(100), 328, 72, DType::kF16, false, false, true},
          {D(77), 64, 8, DType::kBF16, true}},
         10, false, {1});
}
TEST_F(Transposed, OfAKnownKWithPauses) {
  RunAll({{D(1000), 264, 136}, {D(520), 136, 131, DType::kBF16, false, false, false, true}}, 4,
         true, {1});
}

// Both operands are other kernels' results: three kernels, or two that share a launch, and one.
TEST_F(Transposed, OfComputedOperands) {
  Gradient g{Dim::M(), 264, 136};
  g.computed = true;
  RunPlanned(g, {1, 64, 77, 300, 512}, 3);
  g.k = D(1000);
  RunPlanned(g, {1}, 3);
}

// Rows and columns that are not multiples of 8 go through copies padded with zeros.
TEST_F(Transposed, OfAnyNumberOfRowsAndColumns) {
  std::mt19937 random(59);
  for (int i = 0; i < 12; ++i) {
    Gradient g{Dim::M(), 1 + static_cast<int64_t>(random() % 400),
               1 + static_cast<int64_t>(random() % 400)};
    g.dtype = random() % 2 == 0 ? DType::kBF16 : DType::kF16;
    g.computed = random() % 2 == 0;
    if (i % 3 == 2) g.k = D(1 + static_cast<int64_t>(random() % 700));
    SCOPED_TRACE(absl::StrCat(g.rows, " x ", g.n));
    RunPlanned(g, {1, 1 + static_cast<int64_t>(random() % 500), 511}, 0);
    if (HasFatalFailure()) return;
  }
}

TEST_F(Transposed, LongSums) {
  RunPlanned({Dim::M(), 264, 128}, {8192, 5000, 4097}, 1);
  RunPlanned({Dim::M(), 64, 64}, {8192, 1}, 1);
}

// Without rows the sum is zero, and the epilogue's ops are done.
TEST_F(Transposed, OfNoRows) {
  Gradient g{Dim::M(), 72, 136};
  RunPlanned(g, {64, 0}, 1);
  g.full = true;
  RunPlanned(g, {64, 0}, 1);
  g.full = false;
  g.computed = true;
  RunPlanned(g, {64, 0}, 3);
}

// dx = dy W, dW = x^T dy, db = sum(dy), for y = x W + b, with relu before it.
TEST_F(Transposed, GradientsOfALinearLayer) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Data data(
        ports(),
        ReadChain(
            "x: $0[M,136]; y: $0[M,264]; above: $0[M,264]; w: $0[136,264]; zero = 0:$0; dy = "
            "select(gt(y, zero), above, zero); out $0(dy @ w.T), $0(x.T @ dy), sum(f32(dy), 0)",
            NameOf(dtype)),
        kMost, 61);
    PrepareOptions options;
    const auto plan = Got(engine()->Prepare(*data.chain(), kMost, options));
    SCOPED_TRACE(plan->plan().ToText());
    const BoundRun run = data.Bind(plan);
    for (const int64_t m : {1, 64, 129, 300, 512}) ASSERT_OK(data.Check(run, m));
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::transposed
