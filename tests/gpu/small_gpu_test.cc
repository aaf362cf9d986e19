// A few launches of small kernels of every dataflow: what compute-sanitizer can follow.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::small {
namespace {

constexpr int64_t kRows = 40, kImages = 8;

std::vector<FfnSpec> Specs() {
  return ReadFfns({"n256 k256 l136 relu bias1 bias2",
                   "gated n256 k256 l136 silu io f16 bias1 bias2",
                   "n256 k256 l131 relu bias1 bias2 residual",
                   "gated n256 k256 l136 silu io f16 bias1 bias2 residual rounded"});
}

class Small : public GpuTest {
 protected:
  void RunSpread(Dataflow dataflow) {
    for (const FfnSpec& spec : Specs()) {
      SCOPED_TRACE(NameOf(spec));
      const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
      const auto plans = SpreadPlans(*chain, BucketOf(kRows), ports().model, dataflow, 3);
      ASSERT_EQ(plans.size(), 3u);
      for (const Plan& plan : plans) Run(chain, plan, plan.ToText(), {kRows, 33});
    }
  }

  // With the first of `ms` first, the largest.
  void Run(std::shared_ptr<const Chain> chain, const Plan& plan, const std::string& name,
           const std::vector<int64_t>& ms) {
    SCOPED_TRACE(name);
    const auto loaded = Got(BuildPlan(ports(), chain, plan));
    ExpectRows(*Got(DeviceChain::Make(ports(), *chain, ms[0], 5)), loaded, ms);
  }
};

TEST_F(Small, GridExchange) { RunSpread(Dataflow::kGridExchange); }
TEST_F(Small, ClusterExchange) { RunSpread(Dataflow::kClusterExchange); }
TEST_F(Small, Products) { RunSpread(Dataflow::kProduct); }

// Rows by im2col loads.
TEST_F(Small, Windows) {
  const std::string line = "conv_chain b=M ic=64 h=5 w=4 oc1=64 oc2=72 k1=3 k2=1 act=relu bias2=1";
  const auto chain = std::make_shared<const Chain>(ParseProblem(line)->chain);
  for (const Dataflow dataflow : {Dataflow::kProduct, Dataflow::kClusterExchange}) {
    for (const Plan& plan : SpreadPlans(*chain, kImages, ports().model, dataflow, 3)) {
      Run(chain, plan, plan.ToText(), {kImages, 5});
    }
  }
}
// Whose taps are padded, and whose sum with a residual is activated.
TEST_F(Small, WindowsOfOddChannels) {
  const std::string line =
      "conv b=M ic=40 h=4 w=5 oc=64 k=3 act=relu bias=1 residual=before stride=2 pad=1";
  const auto chain = std::make_shared<const Chain>(ParseProblem(line)->chain);
  const ProductSequence problem = MatchProducts(*chain, kImages)->sequence;
  for (const Schedule& s : Spread(LegalSchedules(problem, ports().model, Dataflow::kProduct), 4)) {
    Run(chain, UnfusedPlanOf(*chain, kImages, s, s).value(), s.ToString(), {kImages, 3});
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::small
