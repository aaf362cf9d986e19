// The stitch family on a device: random graphs, schedules of every kind, measured graphs, chains of
// any number of rows, and graphs with products among the rest.
#include "src/reference/evaluator.h"
#include "src/stitch/search/stitch_search.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/forced_hands.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_stitch_graph.h"

namespace sinter::gpu_testing::stitch {
namespace {

using bench::GraphCase;

constexpr int kRepeats = 3;
constexpr int64_t kElements = 1 << 14;          // of a random graph's values, about
constexpr int64_t kFullReference = 4 << 20;     // above it rows are sampled
constexpr int kScheduledGraphs = 12;            // whose schedules are tried one by one
constexpr int kForcedGraphs = 24;               // whose values are handed over
constexpr int64_t kForcedBytes = 48 << 10;      // of a block's shared memory: two fit on an SM
constexpr size_t kSchedules = 14, kPaused = 2;  // of each; of them, with random pauses
constexpr char kGraphFolder[] = "tests/bench/problems/stitch";

void InParallel(size_t count, const std::function<void(size_t)>& body) {
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  reference::ParallelFor(threads, static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(static_cast<size_t>(i));
  });
}

class Clock {
 public:
  double Seconds() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return spent.count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Graphs of tests/support/graphs: "router(M, 8, 4) at 13".
GraphCase CaseOf(const std::string& line) {
  const testing::NamedGraph graph = testing::ReadNamedGraph(line);
  return {line, "", graph.chain, std::max<int64_t>(graph.m, 1)};
}
std::vector<GraphCase> CasesOf(std::initializer_list<const char*> lines) {
  std::vector<GraphCase> cases;
  for (const char* line : lines) cases.push_back(CaseOf(line));
  return cases;
}
// All graphs that a file lists; graphs of M at 1, their own and `most` rows.
void AddListed(const std::string& file, int64_t most, std::vector<GraphCase>* cases) {
  for (const testing::NamedGraph& graph : testing::GraphsIn(file)) {
    const bool rows = graph.chain.UsesM();
    for (const int64_t m :
         rows ? std::vector<int64_t>{1, graph.m, most} : std::vector<int64_t>{1}) {
      cases->push_back({absl::StrCat(graph.name, " m ", m), "", graph.chain, m});
    }
  }
}

constexpr size_t kUnfusedGraphs = 50;

class Stitch : public GpuTest {
 protected:
  struct Counts {
    int runs = 0, wrong = 0, kernels = 0;
  };

  // The chosen plan of every case gives every bit of the reference.
  void ExpectExact(const std::vector<GraphCase>& cases,
                   const std::vector<std::vector<std::string>>& inputs) {
    std::vector<PlanJob> jobs;
    for (const GraphCase& c : cases) jobs.push_back({&c.chain, c.m, PrepareOptions::Choice::kBest});
    const auto plans = PrepareAll(engine(), jobs);
    Counts counts;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto runs = StitchRuns::MakeExact(ports(), cases[i], inputs[i]);
      EXPECT_OK(runs) << cases[i].id;
      if (runs.ok()) CheckPlan(runs->get(), cases[i].id, plans[i], &counts);
    }
    std::printf("%d runs, %d wrong\n", counts.runs, counts.wrong);
  }

  // Plans of every case, prepared on all cores: unfused at even places, of the first cases only
  // (NOT_FOUND elsewhere: they have a kernel for every op), best at odd ones.
  static std::vector<absl::StatusOr<PreparedPlanPtr>> PrepareBoth(
      const std::vector<GraphCase>& cases) {
    std::vector<PlanJob> jobs;
    for (const GraphCase& c : cases) jobs.push_back({&c.chain, c.m, PrepareOptions::Choice::kBest});
    const size_t unfused = std::min(cases.size(), kUnfusedGraphs);
    for (size_t i = 0; i < unfused; ++i) {
      jobs.push_back({&cases[i].chain, cases[i].m, PrepareOptions::Choice::kUnfused});
    }
    const Clock clock;
    auto made = PrepareAll(engine(), jobs);
    std::printf("prepared %zu plans in %.1f s\n", made.size(), clock.Seconds());
    std::vector<absl::StatusOr<PreparedPlanPtr>> plans;
    for (size_t i = 0; i < cases.size(); ++i) {
      plans.push_back(i < unfused ? made[cases.size() + i] : absl::NotFoundError("not prepared"));
      plans.push_back(made[i]);
    }
    return plans;
  }

  // Launches `m` rows of the plan and waits for them. Without rows pointers may be null.
  static absl::Status LaunchRows(const PreparedPlanPtr& plan,
                                 const std::vector<DevicePtr>& pointers,
                                 const DeviceBuffer& workspace, int64_t m) {
    const bool no_rows = std::count(pointers.begin(), pointers.end(), 0) > 0;
    SINTER_ASSIGN_OR_RETURN(const auto binding, plan->Bind(pointers, workspace.ptr, no_rows));
    return ports().measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
      SINTER_RETURN_IF_ERROR(plan->InitWorkspace(workspace.ptr, workspace.bytes, stream));
      return plan->Launch(*binding, stream, m, false);
    });
  }
  static DeviceBuffer WorkspaceOf(const PreparedPlanPtr& plan, DeviceArena* arena) {
    return Got(arena->Allocate(std::max<uint64_t>(plan->WorkspaceBytes(), 16)));
  }

  static bool Report(const std::string& who, const absl::Status& status, Counts* counts) {
    ++counts->runs;
    if (status.ok()) return true;
    ++counts->wrong;
    ADD_FAILURE() << "WRONG " << who << ": " << status.message();
    return false;
  }

  static void CheckPlan(StitchRuns* runs, const std::string& who,
                        const absl::StatusOr<PreparedPlanPtr>& plan, Counts* counts) {
    if (!Report(absl::StrCat(who, ", prepare"), plan.status(), counts)) return;
    counts->kernels += static_cast<int>((*plan)->plan().kernels.size());
    Report(absl::StrCat(who, ", ", (*plan)->plan().kernels.size(), " kernels"),
           runs->Check(*plan, kRepeats), counts);
  }

  static void ExpectBoth(const std::vector<GraphCase>& cases) {
    const auto plans = PrepareBoth(cases);
    Counts unfused, best;
    int without = 0;  // a single op may have no kernel although it is a part of one
    const Clock clock;
    for (size_t i = 0; i < cases.size(); ++i) {
      const auto runs = StitchRuns::Make(ports(), cases[i], 1, kFullReference);
      EXPECT_OK(runs) << cases[i].id;
      if (!runs.ok()) continue;
      if (plans[2 * i].ok()) {
        EXPECT_OK((*runs)->Trust(*plans[2 * i])) << cases[i].id;
      }
      if (plans[2 * i].ok()) {
        CheckPlan(runs->get(), absl::StrCat(cases[i].id, " unfused"), plans[2 * i], &unfused);
      } else if (!absl::IsNotFound(plans[2 * i].status())) {
        ++without;
        std::printf("%s has no unfused plan: %s\n", cases[i].id.c_str(),
                    std::string(plans[2 * i].status().message()).c_str());
      }
      CheckPlan(runs->get(), absl::StrCat(cases[i].id, " chosen"), plans[2 * i + 1], &best);
      if ((i + 1) % 20 == 0 || i + 1 == cases.size()) {
        std::printf("%zu of %zu graphs in %.1f s: %d wrong\n", i + 1, cases.size(), clock.Seconds(),
                    unfused.wrong + best.wrong);
      }
    }
    std::printf("kernels: chosen %d, unfused %d; %d graphs have no unfused plan\n", best.kernels,
                unfused.kernels, without);
    EXPECT_LE(without * 20, static_cast<int>(cases.size()));
  }
};

TEST_F(Stitch, RandomGraphs) {
  ExpectBoth(bench::RandomGraphCases(testing::kRandomStitchGraphs, kElements));
}

TEST_F(Stitch, MeasuredGraphs) {
  if (!std::filesystem::is_directory(kGraphFolder)) GTEST_SKIP() << "no " << kGraphFolder;
  ExpectBoth(Got(bench::LoadGraphCases({kGraphFolder}, {})));
}

// One kernel for the whole graph, in every kind of schedule.
class StitchSchedules : public Stitch {
 protected:
  struct Trial {
    size_t graph = 0;
    StitchSchedule schedule;
    bool paused = false;
    absl::StatusOr<LoadedPlanPtr> plan = absl::UnknownError("not built");

    std::string Name(const std::vector<GraphCase>& cases) const {
      return absl::StrCat(cases[graph].id, " '", schedule.ToString(), " owner ", schedule.owner,
                          paused ? "' with pauses" : "'");
    }
  };

  // Trials of the first graphs that one kernel takes.
  static std::vector<Trial> Trials(const std::vector<GraphCase>& cases, int wanted) {
    std::vector<absl::StatusOr<std::vector<StitchSchedule>>> found(
        cases.size(), absl::UnknownError("not searched"));
    InParallel(cases.size(), [&](size_t i) {
      found[i] = VariedSchedules(cases[i].chain, BucketOf(cases[i].m), ports().model, kSchedules);
    });
    std::vector<Trial> trials;
    int graphs = 0;
    for (size_t i = 0; i < cases.size() && graphs < wanted; ++i) {
      if (!found[i].ok()) continue;
      ++graphs;
      size_t paused = 0;
      for (const StitchSchedule& schedule : *found[i]) {
        trials.push_back({i, schedule, false});
        if (schedule.owner >= 0 && paused++ < kPaused) trials.push_back({i, schedule, true});
      }
    }
    std::printf("%zu kernels of %d graphs\n", trials.size(), graphs);
    EXPECT_EQ(graphs, wanted);
    return trials;
  }

  static absl::StatusOr<LoadedPlanPtr> Build(const GraphCase& c, const Trial& trial) {
    const Chain& chain = c.chain;
    BuildOptions options;
    options.codegen.trap_spins = true;
    options.codegen.jitter = trial.paused;
    SINTER_ASSIGN_OR_RETURN(const Plan plan, OneStitchPlan(chain, BucketOf(c.m), trial.schedule));
    return BuildPlan(ports(), std::make_shared<const Chain>(chain), plan, options);
  }

  static void ExpectTrials(const std::vector<GraphCase>& cases, std::vector<Trial> trials) {
    const Clock clock;
    InParallel(trials.size(),
               [&](size_t i) { trials[i].plan = Build(cases[trials[i].graph], trials[i]); });
    std::printf("built in %.1f s\n", clock.Seconds());
    std::unique_ptr<StitchRuns> runs;
    size_t graph = cases.size(), refused = 0;
    Counts counts;
    for (const Trial& trial : trials) {
      if (!trial.plan.ok()) {
        ++refused;
        std::printf("refused: %s: %s\n", trial.Name(cases).c_str(),
                    std::string(trial.plan.status().message()).substr(0, 200).c_str());
        continue;
      }
      if (trial.graph != graph) {
        graph = trial.graph;
        auto made = StitchRuns::Make(ports(), cases[graph], 2);
        EXPECT_OK(made);
        if (!made.ok()) return;
        runs = *std::move(made);
      }
      Report(trial.Name(cases), runs->Check(*trial.plan, kRepeats), &counts);
    }
    std::printf("%d kernels ran, %d wrong, %zu refused, %.1f s\n", counts.runs, counts.wrong,
                refused, clock.Seconds());
    EXPECT_GT(counts.runs, static_cast<int>(10 * refused));
  }
};

TEST_F(StitchSchedules, OfEveryKindAreRight) {
  const std::vector<GraphCase> cases =
      bench::RandomGraphCases(testing::kRandomStitchGraphs, kElements);
  ExpectTrials(cases, Trials(cases, kScheduledGraphs));
}

// Statistics that wait for all rows, products and sums of a middle axis: at sizes where blocks hold
// several rounds of units, all of them or some.
TEST_F(StitchSchedules, OfComposedGraphsAreRight) {
  const std::vector<GraphCase> cases = CasesOf({
      "pooled_attention(256, 100, 36)",
      "pooled_product(256, 100, 36)",
      "transposed_products(33, 7, 70, 12)",
      "norm_rope(64, 32, 8, 128)",
      "norm_rope(M, 6, 1, 64) at 333",
      "batch_norm(25088, 256, x)",
      "batch_norm(40000, 1024, x)",  // held in part
      "batch_norm(M, 320, x) at 5000",
      "batch_norm_gradient(8, 14, 14, 128)",
      "batch_norm_gradient(32, 28, 28, 512)",  // held in part
      "batch_norm(5000, 200, x + spread(64:f32, x))",
      "whole_norm(1000, 1000)",
      "whole_norm(M, 72) at 5000",
  });
  ExpectTrials(cases, Trials(cases, static_cast<int>(cases.size())));
}

// Values that nobody would hand over, one to eight of them, in schedules of every kind: whatever is
// read at another element of its unit may be handed over.
TEST_F(StitchSchedules, OfForcedHandOversAreRight) {
  std::vector<GraphCase> cases =
      CasesOf({"pooled_attention(256, 100, 36)", "pooled_product(256, 100, 36)",
               "norm_rope(64, 32, 8, 128)", "norm_rope(M, 6, 1, 64) at 333"});
  for (GraphCase& c : bench::RandomGraphCases(kForcedGraphs, kElements)) {
    cases.push_back(std::move(c));
  }
  std::vector<Trial> trials;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto schedules =
        VariedSchedules(cases[i].chain, BucketOf(cases[i].m), ports().model, kSchedules);
    for (size_t j = 0; schedules.ok() && j < schedules->size(); ++j) {
      const StitchSchedule forced = testing::WithForcedHands(cases[i].chain, (*schedules)[j], i + j,
                                                             size_t{1} << j % 4, kForcedBytes);
      if (!forced.handed.empty()) trials.push_back({i, forced, j % 5 == 0});
    }
  }
  std::printf("%zu kernels hand values over\n", trials.size());
  EXPECT_GT(trials.size(), 50u);
  ExpectTrials(cases, std::move(trials));
}

// A row of one warp, of several, of a whole block; more rows than resident blocks.
TEST_F(StitchSchedules, OfRowStepsAreRight) {
  const std::vector<GraphCase> cases =
      CasesOf({"largest(M, 128, 8, f32) at 4097", "largest(M, 4096, 32, bf16) at 77",
               "router_of_shares(M, 160, 8) at 333", "sums(M, 4096, f16) at 33",
               "sums_of_softmax(M, 2112) at 65", "places_of_ones(M, 1023) at 257",
               "dropout_norm(M, 1000) at 129"});
  ExpectTrials(cases, Trials(cases, static_cast<int>(cases.size())));
}

// Parts of other units and lengths, many of one text, in place; chosen plans are one packed kernel.
TEST_F(Stitch, PackedKernels) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < 40; ++i) sizes.push_back(37 + 1000 * i * (i % 3));
  const std::vector<GraphCase> cases = {
      {"rows", "", testing::IndependentRows({{700, 1000}, {33, 4096}}, 0), 1},
      {"rows and elements", "", testing::IndependentRows({{900, 74}, {128, 768}, {0, 300}}, 50001),
       333},
      {"updates", "", testing::IndependentUpdates(sizes), 1},
  };
  const auto plans = PrepareBoth(cases);
  Counts counts;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto runs = Got(StitchRuns::Make(ports(), cases[i], 4));
    PackedSearch search(BucketOf(cases[i].m), ports().model);
    for (const RankedStitch& one : search.Of(cases[i].chain)) {
      const auto plan =
          Got(OneStitchPlan(cases[i].chain, BucketOf(cases[i].m), one.schedule, one.parts));
      const auto built = Got(
          BuildPlan(ports(), std::make_shared<const Chain>(cases[i].chain), plan, {}), cases[i].id);
      Report(absl::StrCat(cases[i].id, " ", PartsText(one.parts)), runs->Check(built, kRepeats),
             &counts);
    }
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " unfused"), plans[2 * i], &counts);
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " chosen"), plans[2 * i + 1], &counts);
  }
  EXPECT_GT(counts.runs, 9);
}

// One plan serves any number of rows, also more than the largest bucket; nothing is written past
// the last row.
class StitchRows : public Stitch {
 protected:
  static void ExpectRows(const Problem& problem, int64_t made_for, const PreparedPlanPtr& plan,
                         int64_t m) {
    GraphCase c{problem.kind, "", problem.chain, m};
    const auto runs = Got(StitchRuns::Make(ports(), c, 3, kFullReference));
    Counts counts;
    Report(absl::StrCat(problem.kind, " made for ", made_for, " rows, m ", m),
           runs->Check(plan, kRepeats), &counts);
    if (m == 7) {
      EXPECT_OK(CheckTail(c, plan)) << problem.kind;
    }
  }

  // Rows that a launch of c.m rows must leave alone.
  static absl::Status CheckTail(const GraphCase& c, const PreparedPlanPtr& plan) {
    constexpr int64_t kMore = 3;
    SINTER_ASSIGN_OR_RETURN(const auto data, bench::GraphData::Make(ports().measurer.get(), c.chain,
                                                                    c.m + kMore, 3, 1));
    SINTER_ASSIGN_OR_RETURN(
        const bench::Runnable run,
        bench::RunnableOf(ports().measurer.get(), plan, c.m, {data->CallerSet(0, false)}));
    SINTER_RETURN_IF_ERROR(data->Reset(false));
    SINTER_RETURN_IF_ERROR(ports().measurer->RunAndWait(
        [&](StreamHandle stream) { return run.enqueue(stream, 0, false); }));
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, data->Download(false));
    for (size_t o = 0; o < outputs.size(); ++o) {
      SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(c.chain, static_cast<int>(o), c.m));
      if (outputs[o].find_first_not_of('\xff', static_cast<size_t>(bytes)) != std::string::npos) {
        return absl::DataLossError(absl::StrCat("output ", o, ": written behind row ", c.m));
      }
    }
    return absl::OkStatus();
  }
};

TEST_F(StitchRows, MemoryChainsTakeAnyNumberOfRows) {
  const char* lines[] = {"softmax rows=M cols=1024 scale=0.125",
                         "layernorm rows=M cols=1000",
                         "residual_rmsnorm rows=M cols=2048",
                         "masked_softmax rows=M cols=74 scale=0.125 mask=full",
                         "swiglu rows=M cols=640",
                         "rope rows=M heads=4 dim=128",
                         "lstm_cell rows=M hidden=200",
                         "gru_cell rows=M hidden=37",
                         "quantize rows=M cols=1024 granularity=row",
                         "quantize rows=M cols=1024 granularity=group ue8m0=1 upper_bound=0.5",
                         "quantize rows=M cols=1000 granularity=row codes=s8",
                         "quantize rows=M cols=1024 granularity=static",
                         "rmsnorm_quantize rows=M cols=2048 granularity=row"};
  std::vector<Problem> problems;
  for (const char* line : lines) problems.push_back(Got(ParseProblem(line), line));
  constexpr int64_t kMadeFor[] = {1, 128, 9000}, kRows[] = {1, 7, 128, 9000};
  std::vector<PlanJob> jobs;
  for (const Problem& problem : problems) {
    for (int64_t m : kMadeFor) jobs.push_back({&problem.chain, m, PrepareOptions::Choice::kBest});
  }
  const auto plans = PrepareAll(engine(), jobs);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Problem& problem = problems[i / std::size(kMadeFor)];
    EXPECT_OK(plans[i]) << problem.kind;
    if (!plans[i].ok()) continue;
    EXPECT_EQ((*plans[i])->plan().kernels.size(), 1u) << problem.kind << " at " << jobs[i].m;
    for (int64_t m : kRows) {
      if (m <= jobs[i].m) ExpectRows(problem, jobs[i].m, *plans[i], m);
    }
  }
}

// rmsnorm, gated FFN, residual: GEMMs in a graph, the ops that they absorb, and the stitched rest.
// `in_place`: the result may take the place of x.
Chain NormFfnResidual(int64_t k, int64_t n, bool in_place) {
  return ReadChain(
      "x: bf16[M,$0]; gamma: const bf16[$0]; w_gate, w_up: const bf16[$1,$0];"
      "w_down: const bf16[$0,$1]; normed = bf16(rmsnorm(x, 1e-6, gamma));"
      "down = gated_ffn(normed, w_gate, w_up, none, none, w_down, none, silu);"
      "out bf16(f32(down) + f32(x)) $2",
      k, n, in_place ? "over x" : "");
}

TEST_F(Stitch, NormFfnResidual) {
  std::vector<GraphCase> cases;
  for (const bool in_place : {false, true}) {
    const Chain chain = NormFfnResidual(512, 1536, in_place);
    for (int64_t m : {1, 64, 300}) {
      cases.push_back({absl::StrCat("m", m, in_place ? " in place" : ""), "", chain, m});
    }
  }
  const auto plans = PrepareBoth(cases);
  Counts counts;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto runs = Got(StitchRuns::Make(ports(), cases[i], 4));
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " unfused"), plans[2 * i], &counts);
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " chosen"), plans[2 * i + 1], &counts);
    if (!plans[2 * i + 1].ok()) continue;
    const size_t kernels = (*plans[2 * i + 1])->plan().kernels.size();
    std::printf("rmsnorm, gated FFN, residual at m %lld: %zu kernels\n",
                static_cast<long long>(cases[i].m), kernels);
    const KernelSpec& last = (*plans[2 * i + 1])->plan().kernels.back().spec;
    EXPECT_EQ(kernels, ProductOf(last).sequence.size() == 2 ? 2u : 3u)
        << (*plans[2 * i + 1])->plan().ToText();
    EXPECT_EQ(ResidualOf(ProductOf(last).sequence), Residual::kAddedRounded);
  }
}

// A norm's statistic is applied after a gate/up pair, by the chain itself or because the chain does
// not round the normalized rows; then a GEMM and the residual.
Chain StatisticFfnResidual(int64_t k, int64_t n, bool before) {
  return ReadChain(
      "x: bf16[M,$0]; w_gate, w_up: const bf16[$1,$0]; w_down: const bf16[$0,$1]; wide = f32(x);"
      "r = rsqrt(mean(square(wide), 1, keep) + 1e-6); rows = $2; gate = rows @ w_gate.T $3;"
      "up = rows @ w_up.T $3; out bf16(silu(gate) * up @ w_down.T + wide)",
      k, n, before ? "wide * spread(r, wide)" : "x",
      before ? "" : absl::StrCat("* spread(r, [M,", n, "])"));
}

TEST_F(Stitch, StatisticBehindProducts) {
  std::vector<GraphCase> cases;
  for (const bool before : {false, true}) {
    const Chain chain = StatisticFfnResidual(512, 1536, before);
    for (int64_t m : {1, 64, 300}) {
      cases.push_back({absl::StrCat("m", m, before ? " before" : " behind"), "", chain, m});
    }
  }
  const auto plans = PrepareBoth(cases);
  Counts counts;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto runs = Got(StitchRuns::Make(ports(), cases[i], 5));
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " unfused"), plans[2 * i], &counts);
    CheckPlan(runs.get(), absl::StrCat(cases[i].id, " chosen"), plans[2 * i + 1], &counts);
    if (!plans[2 * i + 1].ok()) continue;
    const Plan& chosen = (*plans[2 * i + 1])->plan();
    // Up to 48 rows a tile the product computes the norm; else a kernel before it does.
    const bool own = HasNorm(ProductOf(chosen.kernels[0].spec).sequence);
    const bool pair = ProductOf(chosen.kernels.back().spec).sequence.size() == 2;
    EXPECT_EQ(chosen.kernels.size(), (own ? 1u : 2u) + (pair ? 0u : 1u)) << chosen.ToText();
    if (own) continue;
    EXPECT_EQ(FactorOf(ProductOf(chosen.kernels[1].spec).sequence[0]), RowFactor::kF32)
        << chosen.ToText();
  }
}

// The sum of all magnitudes, and the largest element of all, over `axes` of f32 x.
Chain Whole(const std::string& dims, const char* axes) {
  return ReadChain("x: f32[$0]; out sum(abs(x), $1), reduce_max(x, $1)", dims, axes);
}

TEST_F(Stitch, ReductionsOverEverything) {
  std::vector<GraphCase> cases;
  for (const int64_t m : {1, 31, 5000, 8192}) {
    cases.push_back({absl::StrCat("M ", m), "", Whole("M", "0"), m});
    cases.push_back({absl::StrCat("M x 64 ", m), "", Whole("M,64", "0, 1"), m});
    cases.push_back({absl::StrCat("M x 7 ", m), "", Whole("M,7", "0, 1"), m});
    cases.push_back({absl::StrCat("M x 16 x 16 ", m), "", Whole("M,16,16", "0, 2"), m});
  }
  for (const int64_t n : {200, 2048, 4096}) {
    cases.push_back({absl::StrCat(n, " squared"), "", Whole(absl::StrCat(n, ",", n), "0, 1"), 1});
  }
  ExpectBoth(cases);
}

TEST_F(Stitch, ConcatsOfManyOperands) {
  std::vector<GraphCase> cases;
  for (const int count : {32, 33, 64}) {
    for (const int64_t columns : {1, 8, 24}) {
      std::string parts;
      for (int i = 0; i < count; ++i) absl::StrAppend(&parts, "{bf16[M,", columns, "]}, ");
      cases.push_back(
          {absl::StrCat(count, " of ", columns), "", ReadChain("out concat($0 1)", parts), 77});
    }
  }
  ExpectBoth(cases);
}

// x @ w.T without a cast, alone and with a bias and an activation.
TEST_F(Stitch, ProductsWithResultsOfF32) {
  std::vector<GraphCase> cases;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const int64_t n : {8, 1001, 1024}) {
      for (const bool more : {false, true}) {
        const Chain chain = ReadChain(
            "x: $0[M,264]; w: const $0[$1,264]; y = x @ w.T; $2", NameOf(dtype), n,
            more ? absl::Substitute("b: const $0[$1]; out relu(y + spread(b, y))", NameOf(dtype), n)
                 : "out y");
        for (const int64_t m : {1, 3, 17, 128, 300, 2000}) {
          cases.push_back(
              {absl::StrCat(NameOf(dtype), " n ", n, " m ", m, more ? " bias relu" : ""), "", chain,
               m});
        }
      }
    }
  }
  ExpectBoth(cases);
}

// Rows and elements by ids: tables of every type, ids of both types, computed, read through views.
TEST_F(Stitch, Gathers) {
  std::vector<GraphCase> cases;
  AddListed("gathers", 300, &cases);
  for (const int64_t m : {128, 8192}) {
    cases.push_back(CaseOf(absl::StrCat("embedding(M, 50257, 768, s64) at ", m)));
  }
  ExpectBoth(cases);
}

// Windows of every size and type, and the depthwise convolutions of three models.
TEST_F(Stitch, Windows) {
  std::vector<GraphCase> cases;  // the large ones first, which are compared with unfused plans
  for (const char* line :
       {"depthwise_conv b=M ic=32 h=112 w=112 k=3 act=silu scale=1 bias=1 weights=HWIO",
        "depthwise_conv b=M ic=96 h=112 w=112 k=3 stride=2 pad=1 scale=1 bias=1 weights=HWIO",
        "depthwise_conv b=M ic=240 h=28 w=28 k=5 act=silu scale=1 bias=1 weights=HWIO",
        "depthwise_conv b=M ic=120 h=28 w=28 k=5 act=relu bias=1 dtype=f16",
        "depthwise_conv b=M ic=96 h=56 w=56 k=7 bias=1 weights=HWIO",
        "depthwise_conv b=M ic=768 h=7 w=7 k=7 bias=1 weights=HWIO",
        "pool b=M ic=64 h=112 w=112 k=3 stride=2 pad=1",
        "pool b=M ic=192 h=28 w=28 k=2 pool=avg "
        "stride=2 pad=0"}) {
    const auto problem = Got(ParseProblem(line));
    for (const int64_t m : {1, 3}) {
      cases.push_back({absl::StrCat(line, " m ", m), "", problem.chain, m});
    }
  }
  AddListed("windows", 9, &cases);
  ExpectBoth(cases);
}

// The reference would compute too many logits, so the unfused plan is what they are compared with.
TEST_F(Stitch, TokensOfVocabularies) {
  std::vector<GraphCase> cases;
  for (const int64_t columns : {50257, 151936}) {
    for (const int64_t m : {1, 8, 32}) {
      cases.push_back(CaseOf(absl::Substitute("token_of_all(M, $0) at $1", columns, m)));
      for (const int64_t count : {20, 64}) {
        cases.push_back(CaseOf(absl::Substitute("token(M, $0, $1) at $2", columns, count, m)));
      }
    }
  }
  ExpectBoth(cases);
}

// Steps of rows of every length and type, without and with ops that read them.
TEST_F(Stitch, RowSteps) {
  std::vector<GraphCase> cases;  // first those that are compared with the unfused plan
  for (const char* graph :
       {"router(M, 128, 8)", "rows_beside_others(3, M)", "router_of_shares(M, 60, 4)",
        "dropout_norm(M, 4096)", "sums_of_groups(M, 4096)"}) {
    for (const int64_t m : {1, 64, 4096}) cases.push_back(CaseOf(absl::StrCat(graph, " at ", m)));
  }
  AddListed("row_steps", 300, &cases);
  ExpectBoth(cases);
}

// Bytes of `count` elements of `dtype`, of which each is one of `some`.
std::string DrawnOf(const std::vector<double>& some, DType dtype, int64_t count) {
  std::string bytes(static_cast<size_t>(count * SizeOf(dtype)), '\0');
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = some[static_cast<size_t>((state >> 33) % some.size())];
    reference::StoreRun(&value, 1, bytes.data(), reference::StorageOf(dtype), i, 1);
  }
  return bytes;
}

// Equal numbers, NaN of both signs, infinities, zeros of both signs; sums of whole numbers; random
// numbers of seeds and offsets of 64 bits: every bit equals the reference's.
TEST_F(Stitch, RowStepsAreExact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  const std::vector<double> special = {nan, -nan, kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 0.5, 9};
  const std::vector<double> whole = {-2147483648.0, 2147483647.0, 0, 1, -1, 7};
  const std::vector<double> few = {0, 1, -1, 2, 3};
  std::vector<GraphCase> cases;
  std::vector<std::vector<std::string>> inputs;
  const auto add = [&](const std::string& line, std::string input) {
    cases.push_back(CaseOf(line));
    inputs.push_back({std::move(input)});
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kS32}) {
    const bool s32 = dtype == DType::kS32;
    for (const int64_t columns : {1, 5, 32, 33, 128, 1000, 4096}) {
      for (const int64_t taken : {1, 8, 32, 64}) {
        if (taken > columns) continue;
        add(absl::Substitute("largest(M, $0, $1, $2) at 37", columns, taken, NameOf(dtype)),
            DrawnOf(s32 ? whole : special, dtype, 37 * columns));
      }
      add(absl::Substitute("sums(M, $0, $1) at 37", columns, NameOf(dtype)),
          DrawnOf(s32 ? whole : few, dtype, 37 * columns));
    }
  }
  for (const int64_t run : {1, 4}) {
    for (const int64_t taken : {2, 20, 64}) {
      add(absl::Substitute("largest_of_stripes(M, 2048, $0, $1) at 37", taken, run),
          DrawnOf(few, DType::kS32, 37 * 2048));
    }
  }
  for (const int64_t columns : {50257, 128256}) {  // in parts
    add(absl::Substitute("largest(M, $0, 8, bf16) at 3", columns),
        DrawnOf(special, DType::kBF16, 3 * columns));
    add(absl::Substitute("sums(M, $0, s32) at 3", columns),
        DrawnOf(whole, DType::kS32, 3 * columns));
  }
  for (const auto& [seed, offset] : {std::pair<int64_t, int64_t>{42, 0},
                                     {-(int64_t{1} << 62) - 12345, (int64_t{1} << 32) - 100},
                                     {int64_t{1} << 53 | 1, -7}}) {
    const Chain chain = ReadChain("seed, offset: s64[]; out random([M,100], seed, offset)");
    cases.push_back({absl::StrCat("random of ", seed), "", chain, 37});
    inputs.push_back({std::string(reinterpret_cast<const char*>(&seed), sizeof seed),
                      std::string(reinterpret_cast<const char*>(&offset), sizeof offset)});
  }
  ExpectExact(cases, inputs);
}

// Tokens equal the reference's on every plan and number of rows: of NaN, infinities, equal logits;
// of logits that a product makes, whose sums are exact.
TEST_F(Stitch, TokensAreTheReferences) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {-kInfinity, -kInfinity, 0.0, -0.0, 1, -1, 0.5, 9, 9.5, 9.25};
  const std::vector<double> heats = {0, 0.25, 0.5, 1, 2}, shares = {0.25, 0.5, 0.75, 1.5};
  const std::vector<double> counts = {0, 1, 2, 7, 20, 33}, digits = {0, 1, -1, 0.5, 0.25, -2};
  const int64_t seed = (int64_t{5} << 40) + 3, offset = 77;
  const auto bytes_of = [](int64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const char* const draw =
      "k: s32[M]; heat, p, q: f32[M]; seed, offset: s64[];"
      "out next_token(logits, seed, offset, count=20, k=k, temperature=heat, top_p=p, min_p=q * "
      "0.125)";
  std::vector<GraphCase> cases;
  std::vector<std::vector<std::string>> inputs;  // in canonical order
  const auto add = [&](const std::string& name, const Chain& chain, int64_t m,
                       std::vector<std::string> caller) {
    for (const int64_t number : {seed, offset}) caller.push_back(bytes_of(number));
    std::vector<std::string> canonical;
    for (const int32_t at : chain.InputOrder())
      canonical.push_back(caller[static_cast<size_t>(at)]);
    cases.push_back({absl::StrCat(name, " m ", m), "", chain, m});
    inputs.push_back(std::move(canonical));
  };
  for (const int64_t m : {1, 8, 33}) {
    std::vector<std::string> rows = {
        DrawnOf(counts, DType::kS32, m), DrawnOf(heats, DType::kF32, m),
        DrawnOf(shares, DType::kF32, m), DrawnOf(shares, DType::kF32, m)};
    for (const int64_t columns : {40, 8192, 9001, 151936}) {
      for (const bool nan : {false, true}) {
        std::vector<double> some = special;
        if (nan) some.insert(some.end(), {std::nan(""), kInfinity});
        std::vector<std::string> all = rows;
        all.insert(all.begin(), DrawnOf(some, DType::kBF16, m * columns));
        add(absl::StrCat("tokens of ", columns, nan ? " with NaN" : ""),
            ReadChain(absl::StrCat("logits: bf16[M,$0];", draw), columns), m, all);
      }
    }
    std::vector<std::string> all = rows;
    all.insert(all.begin(),
               {DrawnOf(digits, DType::kBF16, m * 64), DrawnOf(digits, DType::kBF16, 12000 * 64)});
    add("tokens after a product",
        ReadChain(absl::StrCat("x: bf16[M,64]; head: const bf16[12000,64];",
                               "logits = bf16(x @ head.T);", draw)),
        m, all);
  }
  ExpectExact(cases, inputs);
}

// Ids far outside of a table that ends where its buffer does give zeros and read nothing there;
// with no rows at all so does every id.
TEST_F(Stitch, GathersGiveZerosOutside) {
  constexpr int64_t kRows = 5, kColumns = 24;
  const std::vector<int64_t> ids = {4, -1, int64_t{1} << 40, 0, 5, -(int64_t{1} << 62), 3};
  const auto count = static_cast<int64_t>(ids.size());
  for (const bool of_m : {false, true}) {
    const Chain chain = ReadChain("x: f32[$0,$1]; ids: s64[$2]; out gather(x, ids)",
                                  of_m ? "M" : absl::StrCat(kRows), kColumns, count);
    const auto plan = Got(engine()->Prepare(chain, kRows, {}));
    DeviceArena arena(ports().measurer.get());
    const auto table = Got(arena.Allocate(kRows * kColumns * sizeof(float)));
    const auto places = Got(arena.Allocate(ids.size() * sizeof(int64_t)));
    const auto out = Got(arena.Allocate(static_cast<uint64_t>(count * kColumns) * sizeof(float)));
    const auto workspace = WorkspaceOf(plan, &arena);
    std::vector<float> values(kRows * kColumns);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    ASSERT_OK(ports().measurer->Upload(table, values.data(), values.size() * sizeof(float)));
    ASSERT_OK(ports().measurer->Upload(places, ids.data(), ids.size() * sizeof(int64_t)));
    for (const int64_t m : {kRows, int64_t{0}}) {
      if (m == 0 && !of_m) continue;
      ASSERT_OK(ports().measurer->Fill(out, 0x7b));
      ASSERT_OK(LaunchRows(plan, {m == 0 ? 0 : table.ptr, places.ptr, out.ptr}, workspace, m));
      std::vector<float> got(static_cast<size_t>(count * kColumns));
      ASSERT_OK(ports().measurer->Download(got.data(), out, got.size() * sizeof(float)));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t id = ids[static_cast<size_t>(i)];
        for (int64_t j = 0; j < kColumns; ++j) {
          const bool inside = id >= 0 && id < m;
          EXPECT_EQ(got[i * kColumns + j],
                    inside ? values[static_cast<size_t>(id * kColumns + j)] : 0.0f)
              << i << " " << j << " of " << m;
        }
      }
    }
  }
}

// Rows written by ids, in place and not: caches of every type, ids of both types, many of them
// equal, computed, read through views.
TEST_F(Stitch, Scatters) {
  std::vector<GraphCase> cases;  // first those that are compared with the unfused plan
  for (const char* graph :
       {"caches_write(M, 16384, 8, 128)", "cache_write(M, 100, 3, f32, s64, over x)"}) {
    for (const int64_t m : {1, 128, 8192}) cases.push_back(CaseOf(absl::StrCat(graph, " at ", m)));
  }
  AddListed("scatters", 300, &cases);
  ExpectBoth(cases);
}

// The last of equal ids wins, whatever the number of rows. Ids far outside a cache that ends
// with its buffer write nothing. In place, the other rows are not touched; otherwise they are
// copied.
TEST_F(Stitch, ScattersWriteTheLastOfEqualIdsAndNothingOutside) {
  constexpr int64_t kSlots = 5, kColumns = 24;
  const std::vector<int64_t> some = {4, -1, int64_t{1} << 40, 0, 5, 4, -(int64_t{1} << 62), 3, 0};
  std::vector<int64_t> ids;
  for (int i = 0; i < 40; ++i) ids.insert(ids.end(), some.begin(), some.end());
  const auto most = static_cast<int64_t>(ids.size());
  const Chain chain =
      testing::GraphOf("cache_write(M, $0, $1, f32, s64, over x)", kSlots, kColumns);
  const auto plan = Got(engine()->Prepare(chain, most, {}));
  DeviceArena arena(ports().measurer.get());
  constexpr uint64_t kBytes = kSlots * kColumns * sizeof(float);
  const auto cache = Got(arena.Allocate(kBytes)), out = Got(arena.Allocate(kBytes));
  const auto places = Got(arena.Allocate(ids.size() * sizeof(int64_t)));
  const auto rows = Got(arena.Allocate(ids.size() * kColumns * sizeof(float)));
  const auto workspace = WorkspaceOf(plan, &arena);
  std::vector<float> before(kSlots * kColumns), given(ids.size() * kColumns);
  for (size_t i = 0; i < before.size(); ++i) before[i] = -static_cast<float>(i + 1);
  for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i + 1);
  ASSERT_OK(ports().measurer->Upload(places, ids.data(), ids.size() * sizeof(int64_t)));
  ASSERT_OK(ports().measurer->Upload(rows, given.data(), given.size() * sizeof(float)));
  for (const bool in_place : {true, false}) {
    for (const int64_t m : {int64_t{0}, int64_t{1}, int64_t{6}, int64_t{37}, most}) {
      ASSERT_OK(ports().measurer->Upload(cache, before.data(), kBytes));
      ASSERT_OK(ports().measurer->Fill(out, 0x7b));
      const DeviceBuffer& to = in_place ? cache : out;
      ASSERT_OK(LaunchRows(plan, {cache.ptr, places.ptr, rows.ptr, to.ptr}, workspace, m));
      std::vector<float> expected = before, got(before.size());
      for (int64_t i = 0; i < m; ++i) {
        const int64_t id = ids[static_cast<size_t>(i)];
        if (id < 0 || id >= kSlots) continue;
        std::copy_n(given.begin() + i * kColumns, kColumns, expected.begin() + id * kColumns);
      }
      ASSERT_OK(ports().measurer->Download(got.data(), to, kBytes));
      EXPECT_EQ(got, expected) << m << (in_place ? " in place" : "");
    }
  }
}

// The scale [1, k / 128] of weights of at most 128 columns.
TEST_F(Stitch, ScaledGroupsOfFewColumns) {
  std::vector<GraphCase> cases;
  for (const int n : {1, 8, 64, 120, 128, 129}) {
    const auto problem =
        Got(ParseProblem(absl::StrCat("scaled_matmul m=M n=", n, " k=512 scales=group")));
    for (const int64_t m : {1, 17, 128, 300}) {
      if (n * m == 1) continue;  // of one element a neighbour is beyond the bound
      cases.push_back({absl::StrCat("n ", n, " m ", m), "", problem.chain, m});
    }
  }
  ExpectBoth(cases);
}

// With M = 0, outputs without M are written; outputs of rows are not, and their buffers may be
// null.
TEST_F(Stitch, NoRowsWriteTheOutputsWithoutM) {
  constexpr int64_t kColumns = 64;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float musts[] = {0, -kInfinity, kInfinity, std::nanf("")};
  for (const bool whole : {false, true}) {
    const Chain chain = ReadChain(
        "x: f32[M,$0]; out sum(x, $1), reduce_max(x, $1), reduce_min(x, $1), mean(x, $1), abs(x)",
        kColumns, whole ? "0, 1" : "0");
    const std::vector<GraphCase> cases = {{"no rows", "", chain, 0}};
    for (const auto& plan : PrepareBoth(cases)) {
      if (absl::IsNotFound(plan.status())) continue;  // one plan is both
      ASSERT_OK(plan);
      DeviceArena arena(ports().measurer.get());
      std::vector<DevicePtr> pointers = {0};
      std::vector<DeviceBuffer> outputs;
      for (size_t i = 0; i < std::size(musts); ++i) {
        const auto buffer = Got(arena.Allocate(kColumns * sizeof(float)));
        ASSERT_OK(ports().measurer->Fill(buffer, 0x7b));  // a large finite number
        outputs.push_back(buffer);
        pointers.push_back(buffer.ptr);
      }
      pointers.push_back(0);
      ASSERT_OK(LaunchRows(*plan, pointers, WorkspaceOf(*plan, &arena), 0));
      for (size_t i = 0; i < std::size(musts); ++i) {
        std::vector<float> got(whole ? 1 : kColumns);
        ASSERT_OK(ports().measurer->Download(got.data(), outputs[i], got.size() * sizeof(float)));
        for (const float v : got) {
          const float must = musts[i];
          EXPECT_TRUE(v == must || (std::isnan(v) && std::isnan(must))) << i << ": " << v;
        }
      }
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::stitch
