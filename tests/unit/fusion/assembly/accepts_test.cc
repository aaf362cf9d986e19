// Plans as planning makes them are made again from their decisions, kernel by kernel the same.
#include "tests/unit/fusion/assembly/bound_addresses.h"
#include "tests/unit/fusion/assembly/sample.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::NamedChain;

std::vector<int64_t> Buckets() {
  if (testing::IsLongRun()) return {1, 8, 64, 128, 640, 4096, 8192};
  return {1, 128};
}

// Makes every plan of the chain again from its decisions; returns how many there are.
size_t ExpectMadeAgain(const NamedChain& of, int64_t bucket, bool for_tuning) {
  const std::vector<Plan> plans = testing::PlansOf(of.chain, bucket, for_tuning);
  const DeviceModel model = H200();
  Assembly assembly(of.chain, bucket, model);
  int told = 0;
  for (const Plan& plan : plans) {
    const absl::StatusOr<Plan> again = testing::Reassembled(plan, &assembly);
    const bool same = again.ok() && again->PlanDigest() == plan.PlanDigest() &&
                      again->fused == plan.fused && again->note == plan.note &&
                      again->PredictedUs() == plan.PredictedUs();
    if (same || told++ > 0) continue;
    ADD_FAILURE() << of.name << " at " << bucket << ": " << again.status() << "\n"
                  << plan.ToText() << (again.ok() ? again->ToText() : "");
  }
  return plans.size();
}

TEST(AssemblyAccepts, EveryListedProblemAndGraph) {
  size_t plans = 0;
  for (const NamedChain& of : testing::SampleOf(testing::ListedChains())) {
    for (const int64_t bucket : Buckets()) {
      plans += ExpectMadeAgain(of, of.chain.UsesM() ? BucketOf(of.chain, bucket) : 1,
                               testing::IsLongRun());
      if (!of.chain.UsesM()) break;
    }
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of listed chains\n";
}

// The quantiser of groups is in the first product's kernel, or stitched: its scales too are written
// before they are read, inside the workspace.
TEST(AssemblyAccepts, FfnsOfCodesWithTheirQuantiserApartAndNot) {
  const Chain chain = ParseProblem(
                          "scaled_gated_ffn m=M n=256 k=256 l=256 act=silu scales=group "
                          "quantize=group")
                          ->chain;
  const DeviceModel model = H200();
  for (const int64_t bucket : {1, 64, 320}) {
    Assembly assembly(chain, bucket, model);
    std::set<size_t> kernels;
    for (const Plan& plan : testing::PlansOf(chain, bucket, true)) {
      EXPECT_EQ(testing::Reassembled(plan, &assembly)->PlanDigest(), plan.PlanDigest());
      EXPECT_EQ(testing::FindEscape(chain, plan, H200()), "") << plan.ToText();
      kernels.insert(plan.kernels.size());
    }
    EXPECT_EQ(kernels, (std::set<size_t>{2, 3})) << bucket;
  }
}

TEST(AssemblyAccepts, RandomGraphs) {
  std::vector<NamedChain> graphs;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    graphs.push_back({absl::StrCat("seed ", seed), testing::MakeRandomStitchGraph(seed)});
  }
  size_t plans = 0;
  for (const NamedChain& of : testing::SampleOf(std::move(graphs))) {
    plans += ExpectMadeAgain(of, 1, false);
    if (of.chain.UsesM()) plans += ExpectMadeAgain(of, 128, false);
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of random graphs\n";
}

TEST(AssemblyAccepts, ChainsOfEveryKind) {
  size_t plans = 0;
  for (const NamedChain& of : testing::ChainsOfEveryKind()) {
    for (const int64_t bucket : {1, 48, 300, 2000}) {
      if (of.chain.UsesM() || bucket == 1)
        plans += ExpectMadeAgain(of, BucketOf(of.chain, bucket), testing::IsLongRun());
    }
  }
  EXPECT_GT(plans, 0u);
  std::cout << plans << " plans of chains of every kind\n";
}

}  // namespace
}  // namespace sinter
