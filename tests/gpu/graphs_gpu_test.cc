// Random graphs of every op and type, against the float64 reference: outputs and workspace are
// poisoned before, every element is compared. SINTER_GPU_GRAPHS graphs (40) from seed
// SINTER_GPU_SEED (1) on; 500 take some two minutes, for which SINTER_GPU_TEST_SECONDS is raised.
#include "tests/bench/exact_graph.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/random_graph.h"
#include "tests/support/rough_chain.h"

namespace sinter::gpu_testing::graphs {
namespace {

using bench::GraphCase;

constexpr int kRepeats = 3;
constexpr int64_t kGraphs = 40, kFirstSeed = 1, kWideShare = 4;  // and a quarter as many wide ones
constexpr double kMostRefused = 0.25;
constexpr uint64_t kUnfusedEvery = 5;  // of the seeds

int64_t NumberOf(const char* variable, int64_t fallback) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == 0 ? fallback : std::atoll(text);
}

class Graphs : public GpuTest {
 protected:
  static bool IsRefused(const absl::Status& status) {
    return StatusNumber(status) == static_cast<int32_t>(ErrorCode::kNoLegalPlan);
  }

  struct Drawn {
    GraphCase graph;
    std::vector<std::string> inputs;  // of exact graphs
  };

  template <typename Draw>
  static std::vector<Drawn> DrawAll(const char* name, int64_t count, const Draw& draw) {
    std::vector<Drawn> all;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t seed = FirstSeed() + static_cast<uint64_t>(i);
      Chain chain = draw(seed);
      const int64_t m = chain.UsesM() ? testing::RowsOfRandomGraph(seed) : 1;
      all.push_back({{absl::StrCat(name, " ", seed), "", std::move(chain), m}, {}});
    }
    return all;
  }

  static uint64_t FirstSeed() {
    return static_cast<uint64_t>(NumberOf("SINTER_GPU_SEED", kFirstSeed));
  }

  static void ExpectAll(const char* name, const std::vector<Drawn>& cases) {
    std::vector<PlanJob> jobs;
    for (const Drawn& c : cases) {
      const bool unfused = (FirstSeed() + jobs.size()) % kUnfusedEvery == 0;
      jobs.push_back({&c.graph.chain, c.graph.m,
                      unfused ? PrepareOptions::Choice::kUnfused : PrepareOptions::Choice::kBest});
    }
    const auto plans = PrepareAll(engine(), jobs);
    int refused = 0, wrong = 0;
    size_t kernels = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      if (IsRefused(plans[i].status())) {
        ++refused;
        continue;
      }
      const absl::Status status =
          plans[i].ok() ? Check(cases[i], *plans[i]) : Annotate(plans[i].status(), "prepare");
      if (plans[i].ok()) kernels += (*plans[i])->plan().kernels.size();
      if (status.ok()) continue;
      ++wrong;
      const GraphCase& c = cases[i].graph;
      ADD_FAILURE() << "WRONG " << c.id << " at " << c.m << " rows: " << status.message() << "\n"
                    << ChainToJson(c.chain);
    }
    std::printf("%zu %s graphs from seed %llu on, %zu kernels: %d wrong, %d refused\n",
                cases.size(), name, static_cast<unsigned long long>(FirstSeed()), kernels, wrong,
                refused);
    EXPECT_LE(refused, 1 + kMostRefused * static_cast<double>(cases.size()));
  }

  static absl::Status Check(const Drawn& c, const PreparedPlanPtr& plan) {
    absl::StatusOr<std::unique_ptr<StitchRuns>> runs =
        c.inputs.empty() ? StitchRuns::Make(ports(), c.graph, 1)
                         : StitchRuns::MakeExact(ports(), c.graph, c.inputs);
    return runs.ok() ? (*runs)->Check(plan, kRepeats) : runs.status();
  }
};

TEST_F(Graphs, OfEveryOpAndTypeAreRight) {
  ExpectAll("random", DrawAll("random", NumberOf("SINTER_GPU_GRAPHS", kGraphs),
                              [](uint64_t seed) { return testing::MakeRandomGraph(seed); }));
}

// Without a cast before their f32 outputs, which the bound of f32 holds: a value that lay in 16
// bits between two kernels misses it a hundred times.
TEST_F(Graphs, WithoutACastAreRightInF32) {
  ExpectAll("wide", DrawAll("wide", NumberOf("SINTER_GPU_GRAPHS", kGraphs) / kWideShare + 1,
                            [](uint64_t seed) { return testing::MakeRandomWideGraph(seed); }));
}

// As frameworks write them: what the normal form changes runs on views of the caller's buffers, and
// the reference on the caller's chain.
TEST_F(Graphs, AsFrameworksWriteThemAreRight) {
  ExpectAll("rough", DrawAll("rough", NumberOf("SINTER_GPU_GRAPHS", kGraphs),
                             [](uint64_t seed) { return testing::MakeRoughChain(seed); }));
}

// Graphs of numbers that f32 holds exactly, with exact ops. An output has every bit of the
// reference's, so a rounding too many or too few fails even if it is within bounds.
TEST_F(Graphs, OfExactNumbersHaveEveryBit) {
  std::vector<Drawn> exact;
  const auto draw = [](uint64_t seed) {
    const Chain chain =
        seed % 2 == 0 ? testing::MakeRoughChain(seed) : testing::MakeRandomGraph(seed);
    return *bench::WithExactOps(chain);
  };
  const int64_t count = NumberOf("SINTER_GPU_GRAPHS", kGraphs);
  for (Drawn& c : DrawAll("exact", 2 * count, draw)) {
    c.inputs = *bench::Quarters(c.graph.chain, c.graph.m, FirstSeed());
    if (*bench::IsExactInF32(c.graph.chain, c.graph.m, c.inputs)) exact.push_back(std::move(c));
  }
  EXPECT_GE(static_cast<int64_t>(exact.size()), count / 2);
  ExpectAll("exact", exact);
}

}  // namespace
}  // namespace sinter::gpu_testing::graphs
