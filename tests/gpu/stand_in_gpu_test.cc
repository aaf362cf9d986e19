// Prebuilt fallback kernels: GEMMs of every epilogue at every m, every tile, graphs of rows, and
// their times compared with the chosen plans.
#include "src/standin/stand_in.h"
#include "tests/bench/cases.h"
#include "tests/bench/measure_graph.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::stand_in {
namespace {

constexpr int64_t kMost = 300;
constexpr int64_t kTileRows[] = {1, 7, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 300};
constexpr char kProblems[] = "tests/bench/problems/";

// Both types, layouts and widths; every activation; bias, constant, factors and residuals; ragged
// columns where a layout allows them.
std::vector<FfnSpec> Specs() {
  return ReadFfns({"n1544 k1032 l523 relu bias1 bias2",
                   "gated n1544 k1032 l776 silu io residual rounded",
                   "gated n1544 k1032 l523 gelu_tanh f16 bias1 residual",
                   "n1544 k1032 l776 gelu_erf io f16 bias2 scale1=1.25",
                   "gated n1544 k1032 l523 silu factor1 factor2",
                   "n1544 k1032 l776 identity io factor1 factors=bf16 residual sum_relu"});
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
    std::map<int64_t, PreparedPlanPtr> plan_of_bucket;
    for (int64_t m = 1; m <= kMost; m = BucketOf(m) + 1) {
      plan_of_bucket[BucketOf(m)] = Got(Prepare(chain, m));
    }
    ExpectEveryM(*data, kMost, plan_of_bucket);
  }
}

// Tiles that no bucket of the chains above chose, too: every one takes every number of rows.
TEST_F(StandIns, OfEveryTileAreRight) {
  for (const FfnSpec& spec : Specs()) {
    const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
    const ProductSequence both = MatchProducts(*chain, BucketOf(kMost), true)->sequence;
    std::vector<Schedule> first, second;
    VisitStandIns(both.Part(0, 1), ports().model, [&](const Schedule& s) { first.push_back(s); });
    VisitStandIns(both.Part(1, 1), ports().model, [&](const Schedule& s) { second.push_back(s); });
    HandPlans hand{chain, {}, kMost, 11};
    for (size_t i = 0; i < second.size(); ++i) {
      Plan plan = Got(UnfusedPlanOf(*chain, BucketOf(kMost), first[i % first.size()], second[i]));
      MarkStandIns(&plan);
      hand.plans.push_back(std::move(plan));
    }
    SCOPED_TRACE(NameOf(spec));
    RunPlans(hand, [](DeviceChain& some, const LoadedPlanPtr& plan) {
      ExpectRows(some, plan, kTileRows);
    });
  }
}

// x w in f32, alone and with bias and relu; ragged columns, and more than one tile each way.
TEST_F(StandIns, IntoF32AreRight) {
  for (const bool wide : {false, true}) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const Chain chain =
          ReadChain(wide ? "x: $0[M,1032]; w: const $0[1032,776]; bias: const $0[776];"
                           "out linear(x, w, bias, relu, layout=io)"
                         : "x: $0[M,1032]; w: const $0[523,1032]; out linear(x, w, none)",
                    NameOf(dtype));
      for (const int64_t m : kTileRows) {
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
      ASSERT_OK(runs->Trust(Got(engine()->Prepare(c.chain, c.m, unfused))));
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
    const auto data =
        Got(bench::GraphData::MakeOfWeights(ports().measurer.get(), c.chain, c.m, 5, true));
    double us[2] = {0, 0};
    for (int which = 0; which < 2; ++which) {
      const auto time = Got(TimeOf(
          bench::RunnableOf(ports().measurer.get(), which == 0 ? *own[i] : *chosen[i], c.m, *data),
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
    for (size_t set = 0; set < data->sets(); ++set) buffers.push_back(data->CallerSet(set, false));
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
