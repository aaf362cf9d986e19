// Four kinds of clusters. Some share row tiles by ranges of N. Some have a slab that does not hold
// all of C, which is then in shared memory, at peers and in L2 at once. Some have gate and up in
// ranks of their own. In some the weights stay while row tiles pass. The tests cover schedules over
// the whole space, rows that end anywhere, and back-to-back launches on one workspace, with and
// without pauses; spins trap.
#include "src/plan/product_family.h"
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::clusters {
namespace {

constexpr size_t kSchedules = 14, kPaused = 4;  // of each chain and number of rows
constexpr int kBehindOneAnother = 40;

// Plain and gated, either layout and dtype, ragged columns, biases, a residual.
std::vector<FfnSpec> Specs() {
  return ReadFfns(
      {"n1544 k328 l523 relu bias1 bias2", "gated n1032 k328 l264 silu f16 bias2 residual",
       "gated n1032 k328 l264 silu io bias2 residual rounded", "n3072 k256 l1024 gelu_erf"});
}

// The same so small that a few blocks hold all weights.
std::vector<FfnSpec> SmallSpecs() {
  std::vector<FfnSpec> specs = Specs();
  const int64_t sizes[][3] = {{200, 136, 75}, {136, 72, 104}, {192, 64, 128}, {512, 128, 128}};
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].n = sizes[i][0];
    specs[i].k = sizes[i][1];
    specs[i].l = sizes[i][2];
  }
  return specs;
}

// Where weights stay, so few clusters that each takes many row tiles.
std::vector<Plan> PlansOf(const Chain& chain, const DeviceModel& model, Dataflow form, int64_t rows,
                          size_t count) {
  constexpr int kFewClusters = 3;
  const int64_t bucket = BucketOf(rows);
  const ProductSequence problem = MatchProducts(chain, bucket)->sequence;
  std::vector<Plan> plans;
  for (Schedule s : Spread(LegalSchedules(problem, model, form), count)) {
    if (form == Dataflow::kResidentWeights) s.grid = std::min(s.grid, kFewClusters * s.cluster);
    plans.push_back(FusedPlanOf(chain, bucket, s).value());
  }
  return plans;
}

// How many levels hold some of C.
int Levels(const Plan& plan) {
  const KernelSpec& spec = plan.kernels[0].spec;
  const LevelBytes split = IntermediateSplit(ProductOf(spec).sequence, ProductOf(spec).schedule);
  return static_cast<int>(
      std::count_if(split.begin(), split.end(), [](double bytes) { return bytes > 0; }));
}

class Clusters : public GpuTest {
 protected:
  static void RunAll(Dataflow form, int64_t rows, bool jitter) {
    PlanCounts all;
    size_t on_three_levels = 0;
    const bool resident = form == Dataflow::kResidentWeights;
    for (const FfnSpec& spec : resident ? SmallSpecs() : Specs()) {
      if (form == Dataflow::kSpatialGate && !spec.gated) continue;
      SCOPED_TRACE(NameOf(spec));
      HandPlans hand{std::make_shared<const Chain>(MakeFfnChain(spec).value()), {}, rows, 23};
      hand.plans = PlansOf(*hand.chain, ports().model, form, rows, jitter ? kPaused : kSchedules);
      ASSERT_FALSE(hand.plans.empty());
      hand.options.codegen.trap_spins = true;
      hand.options.codegen.jitter = jitter;
      hand.may_be_refused = true;
      const PlanCounts counts = RunPlans(hand, [&](DeviceChain& data, const LoadedPlanPtr& plan) {
        Run(data, plan, rows);
        on_three_levels += Levels(plan->plan) == 3;
      });
      if (HasFatalFailure()) return;
      all.ran += counts.ran;
      all.refused += counts.refused;
    }
    std::printf("%zu schedules ran, %zu with C on three levels; %zu were refused\n", all.ran,
                on_three_levels, all.refused);
    EXPECT_GT(all.ran, all.refused);
    EXPECT_EQ(on_three_levels > 0, form == Dataflow::kClusterSlab);
  }

  // Right for any number of rows; then many back-to-back launches, the last of which writes the
  // same bytes as the first.
  static void Run(DeviceChain& data, const LoadedPlanPtr& plan, int64_t rows) {
    const auto run = Got(data.Bind(plan));
    std::string first;
    for (int64_t m : {rows, rows - 1, rows / 2 + 1, int64_t{1}}) {
      const auto output = Got(data.Run(run, m));
      ASSERT_OK(data.Check(output, m)) << "m " << m;
      if (m == rows) first = output;
    }
    for (const bool pdl : {false, true}) {
      ASSERT_OK(data.Poison(run));
      ASSERT_OK(ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
        for (int i = 1; i < kBehindOneAnother; ++i) {
          SINTER_RETURN_IF_ERROR(run.launch(stream, i % 3 == 0 ? rows / 2 : rows, pdl));
        }
        return run.launch(stream, rows, pdl);
      }));
      const auto last = Got(data.DownloadOutput());
      ASSERT_TRUE(last == first) << "launches in a row differ, pdl " << pdl;
    }
  }
};

TEST_F(Clusters, FewRows) { RunAll(Dataflow::kClusterRanges, 16, false); }
TEST_F(Clusters, SomeRows) { RunAll(Dataflow::kClusterRanges, 64, false); }
TEST_F(Clusters, ManyRows) { RunAll(Dataflow::kClusterRanges, 200, false); }
TEST_F(Clusters, FewRowsWithPauses) { RunAll(Dataflow::kClusterRanges, 24, true); }
TEST_F(Clusters, ManyRowsWithPauses) { RunAll(Dataflow::kClusterRanges, 128, true); }
TEST_F(Clusters, ResidentWeightsOfFewRows) { RunAll(Dataflow::kResidentWeights, 130, false); }
TEST_F(Clusters, ResidentWeightsOfManyRows) { RunAll(Dataflow::kResidentWeights, 1990, false); }
TEST_F(Clusters, ResidentWeightsWithPauses) { RunAll(Dataflow::kResidentWeights, 1000, true); }
TEST_F(Clusters, SlabsOfFewRows) { RunAll(Dataflow::kClusterSlab, 16, false); }
TEST_F(Clusters, SlabsOfManyRows) { RunAll(Dataflow::kClusterSlab, 200, false); }
TEST_F(Clusters, SlabsWithPauses) { RunAll(Dataflow::kClusterSlab, 128, true); }
TEST_F(Clusters, SpatialGates) { RunAll(Dataflow::kSpatialGate, 200, false); }
TEST_F(Clusters, SpatialGatesWithPauses) { RunAll(Dataflow::kSpatialGate, 128, true); }

}  // namespace
}  // namespace sinter::gpu_testing::clusters
