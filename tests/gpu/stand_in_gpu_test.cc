// Prebuilt fallback kernels: GEMMs of every epilogue at every m, every tile, graphs of rows, and
// their times compared with the chosen plans.
#include "src/standin/stand_in.h"
#include "tests/bench/cases.h"
#include "tests/bench/measure_graph.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"

namespace sinter::gpu_testing::stand_in {
namespace {

constexpr int64_t kMost = 300;
constexpr char kProblems[] = "tests/bench/problems/";

FfnSpec Spec(DType dtype, Layout layout, bool gated, Activation act) {
  FfnSpec spec{.gated = gated, .n = 1544, .k = 1032, .act = act, .layout = layout, .dtype = dtype};
  spec.l = layout == Layout::kIO ? 776 : 523;  // ragged columns where a layout allows them
  return spec;
}

// Both types, layouts and widths; every activation; bias, constant, factors and residuals.
std::vector<FfnSpec> Specs() {
  std::vector<FfnSpec> specs = {Spec(DType::kBF16, Layout::kOI, false, Activation::kRelu),
                                Spec(DType::kBF16, Layout::kIO, true, Activation::kSilu),
                                Spec(DType::kF16, Layout::kOI, true, Activation::kGeluTanh),
                                Spec(DType::kF16, Layout::kIO, false, Activation::kGeluErf),
                                Spec(DType::kBF16, Layout::kOI, true, Activation::kSilu),
                                Spec(DType::kBF16, Layout::kIO, false, Activation::kIdentity)};
  specs[0].bias1 = specs[0].bias2 = true;
  specs[1].residual = specs[1].rounds_sum = true;
  specs[2].bias1 = specs[2].residual = true;
  specs[3].bias2 = true;
  specs[3].scale1 = 1.25;
  specs[4].factor1 = specs[4].factor2 = true;
  specs[4].factor_dtype = DType::kF32;
  specs[5].factor1 = true;
  specs[5].factor_dtype = DType::kBF16;
  specs[5].residual = true;
  specs[5].sum_act = Activation::kRelu;
  return specs;
}

class StandIns : public GpuTest {
 public:
  static void SetUpTestSuite() {
    setenv("SINTER_STAND_INS", "1", 1);
    GpuTest::SetUpTestSuite();
  }

 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (EmbeddedStandIns() == 0) GTEST_SKIP() << "built without NVRTC";
  }
  absl::StatusOr<PreparedPlanPtr> Prepare(const Chain& chain, int64_t m) {
    absl::StatusOr<PreparedPlanPtr> plan = engine()->Prepare(chain, m, {.no_build = true});
    if (plan.ok() && !(*plan)->plan().IsStandIn()) return absl::InternalError("it was compiled");
    return plan;
  }
};

TEST_F(StandIns, AreRightAtEveryM) {
  for (const FfnSpec& spec : Specs()) {
    SCOPED_TRACE(NameOf(spec));
    const Chain chain = Got(MakeFfnChain(spec));
    const auto data = Got(DeviceChain::Make(ports(), chain, kMost, 7));
    std::map<int64_t, BoundRun> bound;
    for (int64_t m = 1; m <= kMost; ++m) {
      if (bound.count(BucketOf(m)) == 0) {
        const auto plan = Got(Prepare(chain, m));
        const auto run = Got(data->Bind(plan));
        bound[BucketOf(m)] = run;
      }
      const auto output = data->Run(bound[BucketOf(m)], m);
      ASSERT_OK(output) << "m " << m;
      ASSERT_OK(data->Check(*output, m)) << "bucket " << BucketOf(m) << " m " << m;
    }
  }
}

// Tiles that no bucket of the chains above chose, too: every one takes every number of rows.
TEST_F(StandIns, OfEveryTileAreRight) {
  for (const FfnSpec& spec : Specs()) {
    const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
    const auto data = Got(DeviceChain::Make(ports(), *chain, kMost, 11));
    ProductSequence both = data->matched().sequence;
    both.m = BucketOf(kMost);
    std::vector<Schedule> first, second;
    VisitStandIns(both.Part(0, 1), ports().model, [&](const Schedule& s) { first.push_back(s); });
    VisitStandIns(both.Part(1, 1), ports().model, [&](const Schedule& s) { second.push_back(s); });
    std::vector<Plan> plans;
    for (size_t i = 0; i < second.size(); ++i) {
      Plan plan = Got(UnfusedPlanOf(*chain, BucketOf(kMost), first[i % first.size()], second[i]));
      MarkStandIns(&plan);
      plans.push_back(std::move(plan));
    }
    const auto built = BuildPlans(ports(), chain, plans);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(NameOf(spec), "\n", plans[i].ToText()));
      ASSERT_OK(built[i]);
      const auto run = Got(data->Bind(*built[i]));
      for (int64_t m : {1, 7, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 300}) {
        const auto output = data->Run(run, m);
        ASSERT_OK(output) << "m " << m;
        ASSERT_OK(data->Check(*output, m)) << "m " << m;
      }
    }
  }
}

// x w in f32, alone and with bias and relu; ragged columns, and more than one tile each way.
TEST_F(StandIns, IntoF32AreRight) {
  for (const bool wide : {false, true}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      ChainBuilder b;
      const int64_t n = wide ? 776 : 523, k = 1032;
      const ValueId x = *b.Input({dtype, {Dim::M(), Dim::Constant(k)}});
      const std::vector<Dim> of_w = {Dim::Constant(wide ? k : n), Dim::Constant(wide ? n : k)};
      const ValueId w = *b.Input({dtype, of_w}, {true, {}, "w"});
      const ValueId bias =
          wide ? *b.Input({dtype, {Dim::Constant(n)}}, {true, {}, "bias"}) : kNoValue;
      const auto y = Got(AddLinear(b, x, w, bias, wide ? Layout::kIO : Layout::kOI,
                                   wide ? Activation::kRelu : Activation::kIdentity));
      const auto chain = Finished(b, {y});
      for (const int64_t m : {1, 7, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 300}) {
        const bench::GraphCase c{"f32", "", chain, m};
        const auto plan = Got(Prepare(chain, m));
        const auto runs = Got(StitchRuns::Make(ports(), c, 1));
        EXPECT_OK(runs->Check(plan, 2)) << NameOf(dtype) << " m " << m;
      }
    }
  }
}

TEST_F(StandIns, OfGraphsAreRight) {
  auto cases = Got(bench::LoadGraphCases(
      {absl::StrCat(kProblems, "memory_chains.txt"), absl::StrCat(kProblems, "stitch")}, {}));
  const std::vector<bench::GraphCase> random = bench::RandomGraphCases(60, 1 << 14);
  cases.insert(cases.end(), random.begin(), random.end());
  int taken = 0;
  for (const bench::GraphCase& c : cases) {
    const auto plan = Prepare(c.chain, c.m);
    const bool listed = c.id.substr(0, 6) != "random";
    if (!plan.ok() && listed) {
      std::printf("%s: %s\n", c.id.c_str(), std::string(plan.status().message()).c_str());
    }
    if (!plan.ok()) continue;
    ++taken;
    const auto runs = Got(StitchRuns::Make(ports(), c, 3, 4 << 20));
    PrepareOptions unfused{.choice = PrepareOptions::Choice::kUnfused};
    if (absl::IsFailedPrecondition(runs->Check(*plan, 1))) {  // too large for the reference
      const auto other = Got(engine()->Prepare(c.chain, c.m, unfused));
      ASSERT_OK(runs->Trust(other));
    }
    EXPECT_OK(runs->Check(*plan, 2)) << c.id << "\n" << (*plan)->plan().ToText();
  }
  std::printf("%d of %zu graphs are taken\n", taken, cases.size());
  EXPECT_GT(taken, 20);
}

class StandInTimes : public StandIns {
 protected:
  // The time of one computation in a graph of many, each on other buffers.
  static absl::StatusOr<double> TimeOf(const absl::StatusOr<bench::Runnable>& run, int calls) {
    if (!run.ok()) return run.status();
    return bench::TimeInGraph(ports().measurer.get(), *run, {.replays = 7, .calls = calls});
  }
  static void Print(const std::string& id, int64_t m, const Plan& stand_in, const Plan& chosen,
                    double own, double other) {
    std::printf(
        "%-8s m %5ld  chosen %8.2f us  stand-in %8.2f us  ratio %.2f  (%zu and %zu kernels)",
        id.c_str(), static_cast<long>(m), other, own, own / other, chosen.kernels.size(),
        stand_in.kernels.size());
    for (const PlannedKernel& k : stand_in.kernels) {
      const auto code = StandInOf(k.spec);
      std::printf(" %s", code.ok() ? StandInName(code->index).c_str() : "?");
    }
    std::printf("\n");
  }
};

// Prints; nothing is asserted but that all run.
TEST_F(StandInTimes, OfProducts) {
  std::vector<bench::Case> cases;
  for (const char* list : {"gemm_chains", "gated_ffn", "batch_sweep"}) {
    auto some = Got(bench::LoadCases({absl::StrCat(kProblems, list, ".txt")}, {}, "file"));
    cases.insert(cases.end(), some.begin(), some.end());
  }
  std::vector<absl::StatusOr<PreparedPlanPtr>> own;
  std::vector<PlanJob> jobs;
  for (const bench::Case& c : cases) {
    own.push_back(Prepare(c.chain, c.m));
    ASSERT_OK(own.back()) << c.id;
    jobs.push_back({&c.chain, c.m, PrepareOptions::Choice::kBest});
  }
  const auto chosen = PrepareAll(engine(), jobs);
  for (size_t i = 0; i < cases.size(); ++i) {
    const bench::Case& c = cases[i];
    ASSERT_OK(chosen[i]);
    const auto data = Got(bench::ChainData::Make(ports().measurer.get(), c.chain, c.m, 5, true));
    double us[2] = {0, 0};
    for (int which = 0; which < 2; ++which) {
      const auto time = Got(TimeOf(bench::RunnableOf(ports().measurer.get(), c.chain,
                                                     which == 0 ? *own[i] : *chosen[i], c.m, *data),
                                   c.Calls(ports().model)));
      us[which] = time;
    }
    Print(c.id, c.m, (*own[i])->plan(), (*chosen[i])->plan(), us[0], us[1]);
  }
}

TEST_F(StandInTimes, OfGraphs) {
  const auto cases = Got(bench::LoadGraphCases(
      {absl::StrCat(kProblems, "memory_chains.txt"), absl::StrCat(kProblems, "stitch")}, {}));
  std::vector<absl::StatusOr<PreparedPlanPtr>> own;
  std::vector<PlanJob> jobs;
  for (const bench::GraphCase& c : cases) {
    own.push_back(Prepare(c.chain, c.m));
    jobs.push_back({&c.chain, c.m, PrepareOptions::Choice::kBest});
  }
  const auto chosen = PrepareAll(engine(), jobs);
  for (size_t i = 0; i < cases.size(); ++i) {
    const bench::GraphCase& c = cases[i];
    if (!own[i].ok()) continue;
    ASSERT_OK(chosen[i]);
    const int64_t sets = bench::GraphSets(c, static_cast<int>((*own[i])->plan().kernels.size()));
    const auto data = Got(bench::GraphData::Make(ports().measurer.get(), c.chain, c.m, 5, sets));
    std::vector<std::vector<DevicePtr>> buffers;
    for (size_t set = 0; set < data->sets(); ++set) {
      buffers.push_back(data->CallerSet(set, false));
    }
    double us[2] = {0, 0};
    for (int which = 0; which < 2; ++which) {
      const auto time =
          Got(TimeOf(bench::RunnableOf(ports().measurer.get(), which == 0 ? *own[i] : *chosen[i],
                                       c.m, buffers),
                     c.Calls(ports().model)));
      us[which] = time;
    }
    Print(c.id, c.m, (*own[i])->plan(), (*chosen[i])->plan(), us[0], us[1]);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::stand_in
