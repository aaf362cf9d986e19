// Products of chips without wgmma: which products of a chain they are, their schedules, and what
// their kernels are asked to do.
#include "src/chain/problem.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"
#include "src/plan/mma_family.h"
#include "tests/support/damage.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

std::shared_ptr<const Chain> FormOfText(const std::string& line) {
  Problem problem = Got(ParseProblem(line), line);
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))))->chain;
}

absl::StatusOr<FusionResult> PlansOf(const std::string& line, const char* chip, int64_t m,
                                     bool batch_invariant = false) {
  FusionOptions options;
  options.batch_invariant = batch_invariant;
  return PlanChain(*FormOfText(line), m, *BuiltinModel(chip), options);
}
Plan PlanOf(const std::string& line, const char* chip, int64_t m) {
  return Got(PlansOf(line, chip, m), line).chosen;
}

// The products of a chain's runs.
std::vector<MmaProduct> FoundIn(const std::string& line, int64_t bucket) {
  Absorbed absorbed;
  absorbed.mma = true;
  std::vector<MmaProduct> found;
  for (const GraphRun& run : FindProductRuns(*FormOfText(line), bucket, nullptr, absorbed).runs) {
    if (run.own.family == &MmaFamily()) found.push_back(MmaKernels::Of(run.own));
  }
  return found;
}
MmaProduct Sample(int64_t bucket = 64) {
  return FoundIn("matmul m=M n=4096 k=4096 act=silu bias1=1", bucket).at(0);
}

TEST(MmaPlans, ProductsPairsAndFfnsHaveAKernelForEachProduct) {
  for (const char* chip : {"a100", "a10", "l4", "rtx-4090", "b200", "rtx-5090"}) {
    for (const int64_t m : {1, 64, 2048}) {
      SCOPED_TRACE(absl::StrCat(chip, " ", m));
      EXPECT_EQ(PlanOf("matmul m=M n=1024 k=512 layout=io", chip, m).kernels.size(), 1u);
      EXPECT_EQ(PlanOf("gate_up m=M n=1024 k=512 act=silu", chip, m).kernels.size(), 1u);
      const Plan ffn = PlanOf("gated_ffn m=M n=1024 k=512 l=512 act=gelu_tanh", chip, m);
      ASSERT_EQ(ffn.kernels.size(), 2u) << ffn.ToText();
      for (const PlannedKernel& kernel : ffn.kernels) {
        EXPECT_EQ(kernel.spec.family, &MmaFamily());
        EXPECT_OK(kernel.spec.family->Predict(kernel.spec, m, *BuiltinModel(chip)));
      }
      EXPECT_TRUE(MmaKernels::ProblemOf(ffn.kernels[0].spec).product.pair);
    }
  }
}

TEST(MmaPlans, HopperHasNone) {
  for (const PlannedKernel& kernel :
       PlanOf("gated_ffn m=M n=1024 k=512 l=512 act=silu", "h200", 64).kernels) {
    EXPECT_NE(kernel.spec.family, &MmaFamily());
  }
}

TEST(MmaPlans, CodesNeedAChipThatMultipliesThem) {
  const std::string line = "scaled_matmul m=M n=512 k=1024 scales=row act=silu codes=";
  EXPECT_EQ(PlanOf(line + "s8", "a100", 64).kernels.size(), 1u);
  EXPECT_EQ(PlanOf(line + "e4m3", "l4", 64).kernels.size(), 1u);
  EXPECT_TRUE(Says(PlansOf(line + "e4m3", "a100", 64),
                   "kernels of products of e4m3 run only on chips from sm_89 on, device model "
                   "a100 is sm_80"));
}

TEST(MmaPlans, OthersAreRefusedByTheChipsThatHaveThem) {
  const auto why = [](const char* line) {
    return std::string(PlansOf(line, "rtx-4090", 8).status().message());
  };
  EXPECT_THAT(why("conv b=M ic=64 h=8 w=8 oc=64 k=3"),
              HasSubstr("kernels of convolutions run only on Hopper (sm_90a"));
  EXPECT_THAT(why("grouped_matmul m=M experts=8 top=2 n=64 k=64"),
              HasSubstr("kernels of experts run only on Hopper (sm_90a"));
  EXPECT_THAT(why("attention rows=M heads=8 queries=1024 keys=1024 dim=64"),
              HasSubstr("kernels of attention and batched products run only on Hopper (sm_90a"));
  EXPECT_THAT(why("scaled_matmul m=M n=512 k=1024 scales=group"),
              HasSubstr("scales of rows is block 1x128, must be none, tensor or vector"));
}

TEST(MmaPlans, RowsOfBatchInvariantPlansHaveOneOrder) {
  std::set<std::string> orders;
  for (const int64_t m : {1, 16, 300, 4096}) {
    const auto plans = PlansOf("gated_ffn m=M n=1024 k=512 l=512 act=silu", "a100", m, true);
    for (const PlannedKernel& kernel : Got(plans).chosen.kernels) {
      EXPECT_OK(kernel.spec.family->CheckRowOrder(kernel.spec));
      orders.insert(kernel.spec.family->RowOrder(kernel.spec));
    }
  }
  EXPECT_EQ(orders.size(), 2u);  // of the pair, and of the product
}

TEST(MmaPlans, ReadBackFromTheirDecisionsAndHaveSources) {
  const DeviceModel model = *BuiltinModel("a100");
  const std::string line = "matmul m=M n=203 k=1248 act=silu bias1=1";
  const Plan plan = PlanOf(line, "a100", 100);
  const Decisions decisions = Got(DecodeDecisions(EncodeDecisions(DecisionsOf(plan))));
  EXPECT_TRUE(decisions.absorbed.mma);
  const auto assembled = [&](const DeviceModel& of, int64_t bucket) {
    Decisions asked = decisions;
    asked.bucket = bucket;
    return MakePlanAssembly(*FormOfText(line), bucket, of, {})(asked);
  };
  EXPECT_EQ(Got(assembled(model, 100)).plan.PlanDigest(), plan.PlanDigest());
  EXPECT_TRUE(Says(assembled(model, 3000), "grid is"));
  EXPECT_TRUE(Says(assembled(*BuiltinModel("h200"), 100), "its products are by mma.sync"));
  const GeneratedKernel made = Got(Generate(plan.kernels[0].spec, model));
  EXPECT_OK(made.recipe.Check());
  EXPECT_FALSE(made.recipe.pdl);
  EXPECT_TRUE(made.recipe.tensor_maps.empty());
  EXPECT_THAT(made.request.source, HasSubstr("kAlongK = true"));
  EXPECT_EQ(made.recipe.args.size(), 5u);  // rows, weights, bias, result, M
}

TEST(MmaSearch, OffersLegalSchedulesOfEveryNumberOfRows) {
  for (const char* chip : {"a100", "rtx-4090"}) {
    const DeviceModel model = *BuiltinModel(chip);
    for (const int64_t bucket : {1, 16, 100, 8192}) {
      const MmaProduct p = Sample(bucket);
      const std::vector<RankedMma> ranked = SearchMma(p, model, false);
      ASSERT_FALSE(ranked.empty());
      for (const RankedMma& one : ranked) EXPECT_OK(CheckSchedule(p, one.schedule, model));
    }
  }
}

TEST(MmaSearch, RefusalsNameFieldValueAndBound) {
  const DeviceModel model = *BuiltinModel("a100");
  const MmaProduct p = Sample();
  ExpectRefusedSchedules("tests/unit/mma/refused.txt", "schedules", p,
                         SearchMma(p, model, false).front().schedule, model);
  ExpectRefusedChanges("tests/unit/mma/refused.txt", "products", p, CheckMmaProduct);
}

TEST(MmaProducts, BytesReadBackAndDamageIsRefused) { ExpectBytesReadBack(Sample()); }

}  // namespace
}  // namespace sinter
