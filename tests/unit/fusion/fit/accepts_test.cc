// Plans as planning makes them fit their chains: nothing of use is refused.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "gtest/gtest.h"
#include "src/chain/buckets.h"
#include "src/chain/problem.h"
#include "src/engine/kernel_identity.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/fit/plan_fit.h"
#include "src/plan/codegen.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/unit/fusion/fit/bound_addresses.h"
#include "tests/unit/fusion/fit/chains.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using testing::NamedChain;

bool Long() { return getenv("SINTER_TEST_LONG") != nullptr; }

std::vector<int64_t> Buckets() {
  if (Long()) return {1, 8, 64, 128, 640, 4096, 8192};
  return {1, 128};
}

// Checks every plan of the chain; returns how many there are.
size_t ExpectFit(const NamedChain& of, int64_t bucket, bool for_tuning) {
  const std::vector<Plan> plans = testing::PlansOf(of.chain, bucket, for_tuning);
  const DeviceModel model = testing::H200();
  const PlanFit fit(of.chain, bucket, model);
  int told = 0;
  for (const Plan& plan : plans) {
    const absl::Status status = fit.Check(plan);
    if (!status.ok() && told++ > 0) continue;
    EXPECT_TRUE(status.ok()) << of.name << " at " << bucket << ": " << status << "\n"
                             << (told == 1 ? plan.ToText() : "");
  }
  return plans.size();
}

TEST(PlanFitAccepts, EveryListedProblemAndGraph) {
  size_t plans = 0;
  for (const NamedChain& of : testing::ListedChains()) {
    for (const int64_t bucket : Buckets()) {
      plans += ExpectFit(of, of.chain.UsesM() ? BucketOf(of.chain, bucket) : 1, Long());
      if (!of.chain.UsesM()) break;
    }
  }
  std::cout << plans << " plans of listed chains\n";
}

// The quantiser of groups is in the first product's kernel, or stitched: its scales too are written
// before they are read, inside the workspace.
TEST(PlanFitAccepts, FfnsOfCodesWithTheirQuantiserApartAndNot) {
  const Chain chain = ParseProblem(
                          "scaled_gated_ffn m=M n=256 k=256 l=256 act=silu scales=group "
                          "quantize=group")
                          ->chain;
  const DeviceModel model = testing::H200();
  for (const int64_t bucket : {1, 64, 320}) {
    const PlanFit fit(chain, bucket, model);
    std::set<size_t> kernels;
    for (const Plan& plan : testing::PlansOf(chain, bucket, true)) {
      EXPECT_TRUE(fit.Check(plan).ok()) << fit.Check(plan);
      EXPECT_EQ(testing::FindEscape(chain, plan, testing::H200()), "") << plan.ToText();
      kernels.insert(plan.kernels.size());
    }
    EXPECT_EQ(kernels, (std::set<size_t>{2, 3})) << bucket;
  }
}

TEST(PlanFitAccepts, RandomGraphs) {
  size_t plans = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    const NamedChain of{absl::StrCat("seed ", seed), testing::MakeRandomStitchGraph(seed)};
    plans += ExpectFit(of, 1, false);
    if (of.chain.UsesM()) plans += ExpectFit(of, 128, false);
  }
  std::cout << plans << " plans of random graphs\n";
}

TEST(PlanFitAccepts, ChainsOfEveryKind) {
  size_t plans = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    for (const int64_t bucket : {1, 48, 300, 2000}) {
      if (of.chain.UsesM() || bucket == 1)
        plans += ExpectFit(of, BucketOf(of.chain, bucket), Long());
    }
  }
  std::cout << plans << " plans of chains of every kind\n";
}

// Whether the plan's kernels are still those that were measured.
bool IsAsMeasured(const Plan& plan, const TuningEntry& entry) {
  if (entry.kernels.size() != plan.kernels.size()) return false;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelSpec& spec = plan.kernels[i].spec;
    const absl::StatusOr<GeneratedKernel> kernel = Generate(spec, testing::H200());
    if (!kernel.ok()) return false;
    if (KernelIdentity(spec, *kernel) != entry.kernels[i]) return false;
  }
  return true;
}

// Choices that were measured and are kept beside the results of the bench. Older sets name kernels
// by another identity and do not serve.
TEST(PlanFitAccepts, CommittedTuningSets) {
  std::map<Digest, NamedChain> chains;
  for (NamedChain& of : testing::ListedChains()) {
    const Digest digest = of.chain.CanonicalDigest();
    chains.emplace(digest, std::move(of));
  }
  int known = 0, entries = 0, serving = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/bench/results")) {
    if (file.path().extension() != ".set") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    const absl::StatusOr<TuningSet> set = TuningSet::FromText(text.str());
    ASSERT_TRUE(set.ok()) << file.path() << set.status();
    for (const auto& [key, entry] : set->entries()) {
      ++entries;
      const auto of = chains.find(key.chain);
      const absl::StatusOr<Plan> plan = Plan::Decode(entry.bytes);
      if (of == chains.end() || !plan.ok()) continue;
      ++known;
      serving += IsAsMeasured(*plan, entry);
      const absl::Status status =
          CheckPlanFits(*plan, of->second.chain, key.bucket, testing::H200());
      EXPECT_TRUE(status.ok()) << file.path() << ": " << of->second.name << " at " << key.bucket
                               << ": " << status << "\n"
                               << plan->ToText();
    }
  }
  std::cout << known << " of " << entries << " committed choices are of listed chains, " << serving
            << " with kernels as they were measured\n";
  EXPECT_GT(known, 20);
  EXPECT_GT(serving, 20) << "kernels changed: the sets are to be measured again";
}

}  // namespace
}  // namespace sinter
