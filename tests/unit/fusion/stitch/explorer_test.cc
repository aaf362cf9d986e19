// The explorer's plans: what is fused, legality, time, and independence of the order of building.
#include "src/fusion/stitch/explorer.h"

#include <chrono>
#include <cstdio>

#include "gtest/gtest.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "src/fusion/stitch/kernel_choice.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using testing::H200;

StitchGraph GraphOf(const Chain& chain, bool contract = true) {
  StitchGraphOptions options;
  options.contract = contract;
  absl::StatusOr<StitchGraph> graph = StitchGraph::Make(chain, 128, {}, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since)
      .count();
}

TEST(Explorer, TimesLargeGraphs) {
  for (const auto& [name, chain] : std::vector<std::pair<const char*, Chain>>{
           {"50 random ops", testing::RandomDag(1, 50, 4096, 1024)},
           {"200 random ops", testing::RandomDag(2, 200, 4096, 1024)},
           {"2000 random ops", testing::RandomDag(3, 2000, 4096, 1024)},
           {"44 layers of glue", testing::TransformerGlue(44, 4096, 1024)},
           {"adam over 60 tensors", testing::AdamOver(std::vector<int64_t>(60, 1 << 20))}}) {
    const auto start = std::chrono::steady_clock::now();
    const StitchGraph graph = GraphOf(chain);
    const double graph_ms = Milliseconds(start);
    const std::vector<PatternSet> plans = ExploreFusion(graph, H200(), {});
    const double ms = Milliseconds(start);
    std::printf("%-22s %5zu ops %5d vertices %8.1f ms (graph %.1f) kernels %zu f %.1f us\n", name,
                chain.ops().size(), graph.size(), ms, graph_ms, plans[0].InOrder().size(),
                plans[0].score());
    EXPECT_LT(ms, chain.ops().size() <= 60 ? 500 : 10000);
  }
}

}  // namespace
}  // namespace sinter
