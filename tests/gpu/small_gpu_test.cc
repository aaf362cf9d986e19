// A few launches of small kernels of every dataflow: what compute-sanitizer can follow.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::small {
namespace {

constexpr int64_t kRows = 40, kImages = 8;

std::vector<FfnSpec> Specs() {
  FfnSpec plain{
      .n = 256, .k = 256, .l = 136, .act = Activation::kRelu, .bias1 = true, .bias2 = true};
  FfnSpec gated = plain;
  gated.gated = true;
  gated.act = Activation::kSilu;
  gated.layout = Layout::kIO;
  gated.dtype = DType::kF16;
  FfnSpec residual = plain;
  residual.l = 131;
  residual.residual = true;
  FfnSpec gated_residual = gated;
  gated_residual.residual = gated_residual.rounds_sum = true;
  return {plain, gated, residual, gated_residual};
}

class Small : public GpuTest {
 protected:
  void RunSpread(Dataflow dataflow) {
    for (const FfnSpec& spec : Specs()) {
      const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
      const int64_t bucket = BucketOf(kRows);
      const ProductSequence problem = MatchProducts(*chain, bucket)->sequence;
      const std::vector<Schedule> schedules =
          Spread(LegalSchedules(problem, ports().model, dataflow), 3);
      ASSERT_FALSE(schedules.empty()) << NameOf(spec);
      for (const Schedule& schedule : schedules) {
        Run(chain, FusedPlanOf(*chain, bucket, schedule).value(), schedule.ToString(), {kRows, 33});
      }
    }
  }

  // With the first of `ms` first, the largest.
  void Run(std::shared_ptr<const Chain> chain, const Plan& plan, const std::string& name,
           const std::vector<int64_t>& ms) {
    SCOPED_TRACE(name);
    const auto loaded = Got(BuildPlan(ports(), chain, plan));
    const auto data = Got(DeviceChain::Make(ports(), *chain, ms[0], 5));
    const auto run = Got(data->Bind(loaded));
    for (int64_t m : ms) {
      const auto output = Got(data->Run(run, m));
      EXPECT_OK(data->Check(output, m));
    }
  }
};

TEST_F(Small, GridExchange) { RunSpread(Dataflow::kGridExchange); }
TEST_F(Small, ClusterExchange) { RunSpread(Dataflow::kClusterExchange); }

TEST_F(Small, Products) {
  for (const FfnSpec& spec : Specs()) {
    const auto chain = std::make_shared<const Chain>(MakeFfnChain(spec).value());
    const int64_t bucket = BucketOf(kRows);
    const ProductSequence problem = MatchProducts(*chain, bucket)->sequence;
    const auto first =
        Spread(LegalSchedules(FirstOf(problem), ports().model, Dataflow::kProduct), 3);
    const auto second =
        Spread(LegalSchedules(SecondOf(problem), ports().model, Dataflow::kProduct), 3);
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) {
      Run(chain, UnfusedPlanOf(*chain, bucket, first[i], second[i]).value(),
          absl::StrCat(first[i].ToString(), " | ", second[i].ToString()), {kRows, 33});
    }
  }
}

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
