// Random graphs of every op and type, against the float64 reference: outputs and workspace are
// poisoned before, every element is compared. SINTER_GPU_GRAPHS graphs (40) from seed
// SINTER_GPU_SEED (1) on; 500 take some two minutes, for which SINTER_GPU_TEST_SECONDS is raised.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/chain_json.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/random_graph.h"
#include "tests/support/rough_chain.h"

namespace sinter::gpu_testing::graphs {
namespace {

using bench::GraphCase;

constexpr int kRepeats = 3;
constexpr int64_t kGraphs = 40, kFirstSeed = 1, kWideShare = 4;  // of the graphs, beside them
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

  template <typename Draw>
  static void CheckAll(const char* name, int64_t count, const Draw& draw) {
    const auto first = static_cast<uint64_t>(NumberOf("SINTER_GPU_SEED", kFirstSeed));
    std::vector<GraphCase> cases;
    std::vector<PlanJob> jobs;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t seed = first + static_cast<uint64_t>(i);
      Chain chain = draw(seed);
      const int64_t m = chain.UsesM() ? testing::RowsOfRandomGraph(seed) : 1;
      cases.push_back({absl::StrCat(name, " ", seed), "", std::move(chain), m});
    }
    for (int64_t i = 0; i < count; ++i) {
      const GraphCase& c = cases[static_cast<size_t>(i)];
      const bool unfused = (first + static_cast<uint64_t>(i)) % kUnfusedEvery == 0;
      jobs.push_back({&c.chain, c.m,
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
      ADD_FAILURE() << "WRONG " << cases[i].id << " at " << cases[i].m
                    << " rows: " << status.message() << "\n"
                    << ChainToJson(cases[i].chain);
    }
    std::printf("%zu %s graphs from seed %llu on, %zu kernels: %d wrong, %d refused\n",
                cases.size(), name, static_cast<unsigned long long>(first), kernels, wrong,
                refused);
    EXPECT_LE(refused, 1 + kMostRefused * static_cast<double>(count));
  }

  static absl::Status Check(const GraphCase& c, const PreparedPlanPtr& plan) {
    absl::StatusOr<std::unique_ptr<StitchRuns>> runs = StitchRuns::Make(ports(), c, 1);
    return runs.ok() ? (*runs)->Check(plan, kRepeats) : runs.status();
  }
};

TEST_F(Graphs, OfEveryOpAndTypeAreRight) {
  CheckAll("random", NumberOf("SINTER_GPU_GRAPHS", kGraphs),
           [](uint64_t seed) { return testing::MakeRandomGraph(seed); });
}

// Without a cast before their f32 outputs, which the bound of f32 holds: a value that lay in 16
// bits between two kernels misses it a hundred times.
TEST_F(Graphs, WithoutACastAreRightInF32) {
  CheckAll("wide", NumberOf("SINTER_GPU_GRAPHS", kGraphs) / kWideShare + 1,
           [](uint64_t seed) { return testing::MakeRandomWideGraph(seed); });
}

// As frameworks write them: what the normal form changes runs on views of the caller's buffers, and
// the reference on the caller's chain.
TEST_F(Graphs, AsFrameworksWriteThemAreRight) {
  CheckAll("rough", NumberOf("SINTER_GPU_GRAPHS", kGraphs),
           [](uint64_t seed) { return testing::MakeRoughChain(seed); });
}

}  // namespace
}  // namespace sinter::gpu_testing::graphs
