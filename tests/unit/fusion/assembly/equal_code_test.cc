// Plans' kernels of equal code have equal sources, whatever their buffers, rows and grids are: one
// binary serves them all. And what is asked of their families is what planning did.
#include "src/plan/family.h"
#include "tests/unit/fusion/assembly/sample.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::NamedChain;

class EqualCode : public ::testing::Test {
 protected:
  void Add(const NamedChain& of, int64_t bucket) {
    const std::vector<Plan> plans = testing::PlansOf(of.chain, bucket);
    if (plans.empty()) return;
    for (const PlannedKernel& kernel : plans.front().kernels) {
      const KernelCode code = Got(CodeOf(kernel.spec), of.name);
      const absl::Status legal =
          kernel.spec.family->Check(kernel.spec, code, model_, nullptr).status();
      EXPECT_TRUE(legal.ok()) << of.name << " at " << bucket << ": " << legal;
      if (&kernel == &plans.front().kernels.front()) ExpectPrediction(of, bucket, kernel);
      const absl::StatusOr<GeneratedKernel> generated = Generate(kernel.spec, model_);
      if (!generated.ok()) continue;  // the engine has the next plan
      ++kernels_;
      const std::string key = absl::StrCat(code.Bytes(), code.ScheduleBytes());
      const auto [at, fresh] = sources_.try_emplace(key, generated->request.source);
      EXPECT_EQ(at->second, generated->request.source) << of.name << " at " << bucket;
      const LaunchRecipe recipe = Got(RecipeOf(kernel.spec), of.name);
      EXPECT_TRUE(recipe == generated->recipe) << of.name << " at " << bucket;
    }
  }
  // For the first kernel of a plan: its family predicts the time that planning predicted.
  void ExpectPrediction(const NamedChain& of, int64_t bucket, const PlannedKernel& kernel) {
    const auto again = Got(kernel.spec.family->Predict(kernel.spec, bucket, model_), of.name);
    const double planned = kernel.prediction.total_us;
    EXPECT_NEAR(again.total_us, planned, 1e-6 * planned) << of.name << " at " << bucket;
  }
  void AddAll(const std::vector<NamedChain>& chains) {
    for (const NamedChain& of : chains) {
      for (const int64_t bucket : {1, 64, 128, 192, 1024}) {
        Add(of, of.chain.UsesM() ? bucket : 1);
        if (!of.chain.UsesM()) break;
      }
    }
    std::cout << kernels_ << " kernels of " << sources_.size() << " codes\n";
  }

  const DeviceModel model_ = H200();
  std::map<std::string, std::string> sources_;  // by code
  size_t kernels_ = 0;
};

TEST_F(EqualCode, OfListedProblemsAndGraphsHasEqualSource) {
  AddAll(testing::SampleOf(testing::ListedChains()));
  EXPECT_LT(sources_.size() * 10, kernels_ * 9);
}

TEST_F(EqualCode, OfChainsOfEveryKindHasEqualSource) { AddAll(testing::ChainsOfEveryKind()); }

}  // namespace
}  // namespace sinter
