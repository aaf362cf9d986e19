// Products that a constant, a number of each row and one of each column multiply, in every
// dataflow: schedules over the whole space, rows that end anywhere, with residuals and without,
// with and without pauses, and launches that are looped over rows.
#include "tests/gpu/sweep_test.h"
#include "tests/support/chains.h"

namespace sinter::gpu_testing::row_factor {
namespace {

constexpr size_t kSchedules = 8, kPaused = 3;  // of each dataflow and chain

// Factors of either product or both, of either dtype; plain and gated, either layout, aligned and
// ragged columns, with bias, constant and residual.
std::vector<FfnSpec> Specs() {
  FfnSpec plain{.n = 776,
                .k = 328,
                .l = 523,
                .act = Activation::kRelu,
                .bias2 = true,
                .factor1 = true,
                .factor2 = true};
  FfnSpec gated = plain;
  gated.gated = true;
  gated.n = 520;
  gated.l = 264;
  gated.act = Activation::kSilu;
  gated.dtype = gated.factor_dtype = DType::kF16;
  gated.bias1 = true;
  gated.factor2 = false;
  gated.scale1 = 1.25;
  FfnSpec io = gated;
  io.layout = Layout::kIO;
  io.dtype = DType::kBF16;
  io.factor_dtype = DType::kF32;
  io.residual = true;
  FfnSpec second = plain;
  second.l = 1024;
  second.factor1 = false;
  second.factor_dtype = DType::kBF16;
  second.scale2 = -0.75;
  second.residual = second.rounds_sum = true;
  FfnSpec constants = gated;
  constants.factor1 = false;
  constants.scale2 = 3;
  return {plain, gated, io, second, constants};
}

class RowFactors : public SweepTest {
 protected:
  static void RunAll(Dataflow dataflow, bool jitter) {
    Sweep(Specs(), dataflow, jitter ? kPaused : kSchedules, jitter, 31, RunOne);
  }

  // Right at every number of rows, and the same bytes again.
  static void RunOne(DeviceChain& data, const LoadedPlanPtr& plan) {
    const auto bound = Got(data.Bind(plan));
    for (int64_t m : kSomeRows) {
      const auto output = Got(data.Run(bound, m)), again = Got(data.Run(bound, m));
      ASSERT_OK(data.Check(output, m));
      ASSERT_TRUE(output == again) << "m " << m;
    }
  }
};

TEST_F(RowFactors, Products) { RunAll(Dataflow::kProduct, false); }
TEST_F(RowFactors, GridExchange) { RunAll(Dataflow::kGridExchange, false); }
TEST_F(RowFactors, ClusterExchange) { RunAll(Dataflow::kClusterExchange, false); }
TEST_F(RowFactors, ProductsWithPauses) { RunAll(Dataflow::kProduct, true); }
TEST_F(RowFactors, GridExchangeWithPauses) { RunAll(Dataflow::kGridExchange, true); }
TEST_F(RowFactors, ClusterExchangeWithPauses) { RunAll(Dataflow::kClusterExchange, true); }

// Scales of columns of either product or both, of either dtype, alone, with factors of rows, with
// bias and residual; columns that end anywhere.
class ColumnScales : public RowFactors {
 protected:
  static std::vector<FfnSpec> Scaled() {
    std::vector<FfnSpec> specs = Specs();
    for (size_t i = 0; i < specs.size(); ++i) {
      FfnSpec& spec = specs[i];
      if (i % 2 == 0) spec.factor1 = spec.factor2 = false;
      spec.scale_w1 = i != 1;
      spec.scale_w2 = i != 0;
      spec.scale_w_dtype = i < 2 ? spec.dtype : DType::kF32;
      spec.bias1 = true;
    }
    return specs;
  }
  // Whose weights and second columns are small enough to stay.
  static std::vector<FfnSpec> Small() {
    std::vector<FfnSpec> specs = Scaled();
    for (FfnSpec& spec : specs) {
      spec.n = 128;
      spec.k = 72;
      spec.l = 67;
      if (spec.layout == Layout::kIO) spec.l = 72;
    }
    return specs;
  }
  static void RunScaled(Dataflow dataflow, bool jitter = false) {
    const bool small = dataflow == Dataflow::kResidentWeights;
    Sweep(small ? Small() : Scaled(), dataflow, jitter ? kPaused : kSchedules, jitter, 43, RunOne);
  }
};

TEST_F(ColumnScales, Products) { RunScaled(Dataflow::kProduct); }
TEST_F(ColumnScales, GridExchange) { RunScaled(Dataflow::kGridExchange); }
TEST_F(ColumnScales, ClusterExchange) { RunScaled(Dataflow::kClusterExchange); }
TEST_F(ColumnScales, ClusterRanges) { RunScaled(Dataflow::kClusterRanges); }
TEST_F(ColumnScales, ClusterSlab) { RunScaled(Dataflow::kClusterSlab); }
TEST_F(ColumnScales, SpatialGate) { RunScaled(Dataflow::kSpatialGate); }
TEST_F(ColumnScales, ResidentWeights) { RunScaled(Dataflow::kResidentWeights); }
TEST_F(ColumnScales, ProductsWithPauses) { RunScaled(Dataflow::kProduct, true); }

// The factors of a launch that is looped over rows move with them; scales of columns stay.
TEST_F(RowFactors, ManyRows) {
  constexpr int64_t kMany = 9000;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Chain chain = MakeFfnChain({.gated = true,
                                      .n = 256,
                                      .k = 128,
                                      .l = 128,
                                      .act = Activation::kSilu,
                                      .factor1 = true,
                                      .factor2 = true,
                                      .scale_w1 = true,
                                      .scale_w2 = true,
                                      .factor_dtype = dtype,
                                      .scale_w_dtype = dtype})
                            .value();
    const auto data = Got(DeviceChain::Make(ports(), chain, kMany, 37));
    for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
      const auto plan = Got(engine()->Prepare(chain, kMany, {.choice = choice}));
      ExpectCorrect(*data, plan, kMany, 2);
      ExpectCorrect(*data, plan, 8193, 1);
    }
  }
}

// A product of normalised rows, which computes the norm itself.
struct NormedProduct {
  int64_t n, k;
  bool gated, residual;
  Layout layout;
  DType dtype;
  double eps;
};

Chain ChainOf(const NormedProduct& p) {
  ChainBuilder b;
  const Dim n = Dim::Constant(p.n), k = Dim::Constant(p.k);
  const bool oi = p.layout == Layout::kOI;
  InputOptions constant{.constant = true};
  const ValueId x = *b.Input({p.dtype, {Dim::M(), k}});
  const ValueId normal = *AddRmsNorm(b, x, p.eps, kNoValue);
  const auto product = [&] {
    const TensorType type{p.dtype, oi ? std::vector<Dim>{n, k} : std::vector<Dim>{k, n}};
    return *b.Matmul(normal, *b.Input(type, constant), false, oi);
  };
  ValueId y = product();
  if (p.gated) y = *b.Binary(BinaryKind::kMul, *AddActivation(b, Activation::kSilu, y), product());
  if (p.residual) {
    const ValueId added = *b.Input({p.dtype, {Dim::M(), n}});
    y = *b.Binary(BinaryKind::kAdd, y, *b.Cast(added, DType::kF32));
  }
  return Finished(b, {*b.Cast(y, p.dtype)});
}

class RowNorms : public SweepTest {
 protected:
  static constexpr int64_t kMost = 40;

  // Right at `numbers` of rows, over the space of legal schedules, and the same bytes again.
  static void RunAll(size_t schedules, bool jitter, const std::vector<int64_t>& numbers) {
    const NormedProduct products[] = {
        {776, 40, false, false, Layout::kOI, DType::kBF16, 1e-6},
        {517, 328, true, false, Layout::kOI, DType::kF16, 1e-3},
        {264, 1032, true, false, Layout::kOI, DType::kBF16, 1e-5},
        {1064, 136, false, true, Layout::kIO, DType::kBF16, 0.5},
        {2304, 520, false, true, Layout::kOI, DType::kBF16, 1e-6},
    };
    for (const NormedProduct& p : products) {
      const auto chain = std::make_shared<const Chain>(ChainOf(p));
      RunSchedules(chain, schedules, jitter, numbers);
      if (HasFatalFailure()) return;
    }
  }

  static void RunSchedules(const std::shared_ptr<const Chain>& chain, size_t schedules, bool jitter,
                           const std::vector<int64_t>& numbers) {
    const int64_t bucket = BucketOf(kMost);
    const ProductSequence product = MatchProducts(*chain, bucket, true)->sequence;
    std::vector<Plan> plans;
    for (const Schedule& s :
         Spread(LegalSchedules(product, ports().model, Dataflow::kProduct), schedules)) {
      plans.push_back(*UnfusedPlanOf(*chain, bucket, s, s));
    }
    BuildOptions options;
    options.codegen.jitter = jitter;
    const auto built = BuildPlans(ports(), chain, plans, options);
    const auto data = Got(DeviceChain::Make(ports(), *chain, kMost, 41));
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      const auto bound = Got(data->Bind(*built[i]));
      for (int64_t m : numbers) {
        const auto output = Got(data->Run(bound, m)), again = Got(data->Run(bound, m));
        ASSERT_OK(data->Check(output, m));
        ASSERT_TRUE(output == again) << "m " << m;
      }
    }
  }
};

TEST_F(RowNorms, AtEveryNumberOfRows) {
  std::vector<int64_t> numbers(kMost);
  for (int64_t m = 1; m <= kMost; ++m) numbers[static_cast<size_t>(m - 1)] = m;
  RunAll(12, false, numbers);
}
TEST_F(RowNorms, WithPauses) { RunAll(4, true, {40, 17, 1}); }

}  // namespace
}  // namespace sinter::gpu_testing::row_factor
