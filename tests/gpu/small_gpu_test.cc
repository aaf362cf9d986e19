// A few launches of small kernels of every dataflow: what compute-sanitizer can follow.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/product/matcher.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/plan_build.h"
#include "tests/support/sequences.h"

namespace sinter::gpu_testing {
namespace {

constexpr int64_t kRows = 40;

std::vector<FfnSpec> Specs() {
  FfnSpec plain;
  plain.n = 256;
  plain.k = 256;
  plain.l = 136;
  plain.act = Activation::kRelu;
  plain.bias1 = plain.bias2 = true;
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
        Run(chain, FusedPlanOf(*chain, bucket, schedule).value(), schedule.ToString());
      }
    }
  }

  void Run(std::shared_ptr<const Chain> chain, const Plan& plan, const std::string& name) {
    SCOPED_TRACE(name);
    const auto loaded = BuildPlan(ports(), chain, plan);
    ASSERT_OK(loaded);
    const auto data = DeviceChain::Make(ports(), *chain, kRows, 5);
    ASSERT_OK(data);
    const auto run = (*data)->Bind(*loaded);
    ASSERT_OK(run);
    for (int64_t m : {kRows, int64_t{33}}) {
      const auto output = (*data)->Run(*run, m);
      ASSERT_OK(output);
      EXPECT_OK((*data)->Check(*output, m));
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
          absl::StrCat(first[i].ToString(), " | ", second[i].ToString()));
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing
