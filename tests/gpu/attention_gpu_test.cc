// Attention in every spelling, of odd and even extents, alone and inside a layer, against the
// float64 reference: outputs and workspace are poisoned before, every element is compared.
#include "src/fusion/fusion.h"
#include "src/plan/attention_family.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/attention_chains.h"

namespace sinter::gpu_testing::attention {
namespace {

using bench::GraphCase;
using testing::AttentionForm;

constexpr int kRepeats = 3;

class Attention : public GpuTest {
 protected:
  static void ExpectAll(std::vector<GraphCase> cases, PrepareOptions::Choice choice,
                        bool batch_invariant) {
    std::vector<PlanJob> jobs;
    for (const GraphCase& c : cases) {
      jobs.push_back({&c.chain, c.m, choice, batch_invariant && c.chain.UsesM()});
    }
    const auto plans = PrepareAll(engine(), jobs);
    size_t attention = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      if (!plans[i].ok()) {
        ADD_FAILURE() << cases[i].id << ": " << plans[i].status();
        continue;
      }
      for (const PlannedKernel& kernel : (*plans[i])->plan().kernels) {
        attention += kernel.spec.family->name() == "attention";
      }
      const auto runs = Got(StitchRuns::Make(ports(), cases[i], 1));
      const absl::Status status = runs->Check(*plans[i], kRepeats);
      EXPECT_TRUE(status.ok()) << "WRONG " << cases[i].id << ": " << status.message() << "\n"
                               << (*plans[i])->plan().ToText();
    }
    std::printf("%zu chains, %zu kernels of attention\n", cases.size(), attention);
    EXPECT_GE(attention, cases.size() / 2);
  }

  static std::vector<GraphCase> Forms() {
    std::vector<GraphCase> cases;
    for (const AttentionForm& form : testing::AttentionForms()) {
      cases.push_back({form.Name(), "", testing::MakeAttention(form), form.of_m ? form.batch : 1});
    }
    return cases;
  }
};

TEST_F(Attention, InEverySpellingIsRight) {
  ExpectAll(Forms(), PrepareOptions::Choice::kBest, false);
}

// One cluster takes all items, or two do: they wait for one another before each item but the first.
TEST_F(Attention, OfSplitKeysIsRightInEverySchedule) {
  for (const AttentionForm& form : testing::AttentionForms("split")) {
    const auto normal = Got(NormalFormOf(std::make_shared<const Chain>(MakeAttention(form))));
    const GraphCase c = {form.Name(), "", *normal->chain, form.of_m ? 2 : 1};
    const auto runs = Got(StitchRuns::Make(ports(), c, 1));
    std::vector<Plan> plans;
    for (const int splits : {2, 4, 8, 16}) {
      for (const int clusters : {1, 2}) {
        AttentionSchedule s;
        s.splits = splits, s.grid = int64_t{splits} * clusters;
        s.stages = clusters + 1;
        plans.push_back(Got(
            AttentionPlanOf(c.chain, form.of_m ? BucketOf(c.chain, c.m) : 1, ports().model, s)));
      }
    }
    for (const bool jitter : {false, true}) {
      BuildOptions options;
      options.codegen.jitter = jitter;
      const auto built = BuildPlans(ports(), normal->chain, plans, options);
      for (size_t i = 0; i < plans.size(); ++i) {
        ASSERT_OK(built[i]);
        const absl::Status status = runs->Check(*built[i], kRepeats);
        EXPECT_TRUE(status.ok()) << c.id << (jitter ? " with pauses: " : ": ") << status.message()
                                 << "\n"
                                 << plans[i].ToText();
      }
    }
  }
}

// Prediction chooses split keys where a block for each item would leave the chip idle.
TEST_F(Attention, OfFewRowsIsSplit) {
  const Chain chain = MakeAttention(testing::ReadAttentionForm("1x32 1x4096 128 group4"));
  const auto normal = Got(NormalFormOf(std::make_shared<const Chain>(chain)));
  const auto planned = Got(PlanChain(*normal->chain, 1, ports().model, {}));
  ASSERT_EQ(planned.chosen.kernels.size(), 1u);
  EXPECT_GT(AttentionKernels::ScheduleOf(planned.chosen.kernels[0].spec).splits, 1);
}

TEST_F(Attention, InBatchInvariantPlansIsRight) {
  std::vector<GraphCase> cases;
  for (GraphCase& c : Forms()) {
    if (c.chain.UsesM()) cases.push_back(std::move(c));
  }
  ExpectAll(std::move(cases), PrepareOptions::Choice::kBest, true);
}

TEST_F(Attention, InsideAnEncodersLayerIsRight) {
  std::vector<GraphCase> cases;
  cases.push_back({"encoder 2x128x12x64", "", testing::MakeEncoderLayer(2, 128, 12, 64), 1});
  cases.push_back({"encoder 3x197x4x32", "", testing::MakeEncoderLayer(3, 197, 4, 32), 1});
  ExpectAll(std::move(cases), PrepareOptions::Choice::kBest, false);
}

}  // namespace
}  // namespace sinter::gpu_testing::attention
