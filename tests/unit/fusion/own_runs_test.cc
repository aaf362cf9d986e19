// A family that no file of the library knows plans by a row in the list of finders: its runs, of
// one kernel or several, are ranked, placed, bound, read back from decisions and replaced.
#include "src/fusion/product_runs.h"
#include "tests/support/sum_family.h"
#include "tests/unit/fusion/fusion_tests.h"

namespace sinter {
namespace {

using testing::SumCode;
using testing::SumFamily;

constexpr int64_t kBucket = 512;

// y - mean(y), where y is the sum over GPUs of x * w.
Chain SumBehindAProduct() {
  return ReadChain(
      "x: bf16[512,256]; product = bf16(x @ {const bf16[256,256]}.T); sum = neg(product); wide = "
      "f32(sum); out bf16(wide - spread(mean(wide, 1, keep), wide))");
}

// Every `neg` is a sum over GPUs.
std::vector<GraphRun> FindSums(const Chain& chain, const std::vector<bool>& claimed,
                               std::map<ValueId, std::string>*) {
  std::vector<GraphRun> runs;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const Op& op = chain.op(id);
    const bool sum = op.kind == OpKind::kUnary && op.unary == UnaryKind::kNeg;
    if (!sum || claimed[static_cast<size_t>(id)]) continue;
    OwnRun own{.family = &SumFamily(),
               .problem = MakeBody(testing::Sum{4, op.type.dims.back().value, 0}),
               .text = "sum",
               .operands = {{op.operands[0], 0}},
               .result = op.type.dtype};
    runs.push_back(MakeOwnRun(chain, std::move(own), {id}, id));
  }
  return runs;
}

class OwnRuns : public ::testing::Test {
 protected:
  OwnRuns() : model_(H200()), chain_(SumBehindAProduct()) { OwnFinders().push_back({FindSums}); }
  ~OwnRuns() override { OwnFinders().pop_back(); }

  Plan Planned(const FusionOptions& options = {}) const {
    return Got(PlanChain(chain_, kBucket, model_, options)).chosen;
  }
  // The positions of a plan's sums.
  static std::vector<size_t> SumsOf(const Plan& plan) {
    std::vector<size_t> sums;
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      if (plan.kernels[i].spec.family == &SumFamily()) sums.push_back(i);
    }
    return sums;
  }
  static const OwnSpec<SumCode>& SumAt(const Plan& plan, size_t position) {
    return testing::SumKernels::Of(plan.kernels[position].spec);
  }
  absl::StatusOr<Plan> Assembled(const Decisions& decisions,
                                 const AssemblyRequest& request = {}) const {
    const auto assembled = MakePlanAssembly(chain_, kBucket, model_, request)(decisions);
    if (!assembled.ok()) return assembled.status();
    return assembled->plan;
  }
  std::string WhyNot(const Decisions& decisions, const AssemblyRequest& request = {}) const {
    return std::string(Assembled(decisions, request).status().message());
  }

  const DeviceModel model_;
  const Chain chain_;
};

TEST_F(OwnRuns, ArePlannedWithTheirScratchBetweenOtherKernels) {
  const Plan plan = Planned();
  const std::vector<size_t> sums = SumsOf(plan);
  ASSERT_EQ(sums, (std::vector<size_t>{1, 2})) << plan.ToText();
  EXPECT_THAT(plan.note, HasSubstr(": sum"));
  for (size_t i = 0; i < 2; ++i) {
    const OwnSpec<SumCode>& sum = SumAt(plan, sums[i]);
    EXPECT_EQ(sum.code.problem.kernel, static_cast<int>(i));
    EXPECT_EQ(plan.kernels[sums[i]].ops.first, static_cast<int>(i));
    ASSERT_EQ(sum.places.size(), 3u) << "operand, result, scratch";
    EXPECT_EQ(sum.places, SumAt(plan, sums[0]).places);
  }
  // None of the three lies in another one, nor where the plan's other results of that time do.
  const std::vector<BufferPlace> places = SumAt(plan, 1).places;
  const uint64_t bytes = uint64_t{kBucket} * 256 * 2, sizes[] = {bytes, bytes, 2 * bytes};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(places[i].buffer, kWorkspaceBuffer);
    EXPECT_LE(places[i].offset_bytes + sizes[i], plan.workspace_bytes);
    for (size_t j = 0; j < 3; ++j) {
      EXPECT_TRUE(i == j || places[i].offset_bytes + sizes[i] <= places[j].offset_bytes ||
                  places[j].offset_bytes + sizes[j] <= places[i].offset_bytes)
          << i << " and " << j;
    }
  }
  EXPECT_EQ(ProductOf(plan.kernels[0].spec).operands.back().offset_bytes, places[0].offset_bytes);
}

TEST_F(OwnRuns, OfferTheirOtherChoices) {
  const auto result = Got(PlanChain(chain_, kBucket, model_, {}));
  bool other = false;
  for (const Plan& plan : result.alternatives) other = other || SumsOf(plan).size() == 1;
  EXPECT_TRUE(other);
}

TEST_F(OwnRuns, AreReadBackFromTheirDecisions) {
  const Plan plan = Planned();
  EXPECT_EQ(Got(Assembled(DecisionsOf(plan))).PlanDigest(), plan.PlanDigest());
}

TEST_F(OwnRuns, AreRefusedWhereTheirDecisionsDoNotFit) {
  const Decisions whole = DecisionsOf(Planned());
  ASSERT_EQ(whole.kernels.size(), 4u);
  Decisions damaged = whole;
  damaged.kernels.erase(damaged.kernels.begin() + 2);
  EXPECT_THAT(WhyNot(damaged), HasSubstr("kernel 1 of the run of op"));
  damaged = whole;
  std::swap(damaged.kernels[1], damaged.kernels[2]);
  EXPECT_THAT(WhyNot(damaged), HasSubstr("kernel 1 of a run is not the next one"));
  damaged = whole;
  damaged.kernels[2].own = testing::SumKernels().BytesOf({4, 2});
  EXPECT_THAT(WhyNot(damaged), HasSubstr("kernel 1 of a run is not the next one"));
  damaged = whole;
  damaged.kernels[1].own = testing::SumKernels().BytesOf({1000, 2});
  EXPECT_THAT(WhyNot(damaged), HasSubstr("grid 1000 is above the chip's"));
  damaged = whole;
  damaged.kernels[1].ops.values = whole.kernels[0].ops.values;
  EXPECT_THAT(WhyNot(damaged), HasSubstr("is not a result of a run of sum kernels"));
  EXPECT_THAT(WhyNot(whole, {.allow_cooperative = false}), HasSubstr("it waits across blocks"));
}

TEST_F(OwnRuns, AreReplacedAsAWhole) {
  const Decisions before = DecisionsOf(Planned());
  ASSERT_EQ(before.kernels.size(), 4u);
  std::vector<KernelDecision> refused = {before.kernels[2]};
  const auto after = Got(ReplaceKernels(chain_, model_, {}, before, {2}, refused));
  ASSERT_EQ(after.kernels.size(), before.kernels.size() - 1);
  const auto plan = Got(Assembled(after));
  ASSERT_EQ(SumsOf(plan), std::vector<size_t>{1});
  EXPECT_EQ(SumAt(plan, 1).code.schedule.grid, 16);
  EXPECT_EQ(SumAt(plan, 1).places.size(), 2u) << "one kernel has no scratch";
  refused.push_back(after.kernels[1]);
  EXPECT_TRUE(Says(ReplaceKernels(chain_, model_, {}, after, {1}, refused),
                   "each schedule of its sum kernels was refused by the compiler"));
}

TEST_F(OwnRuns, AreNoneOfTheLibrarysOwnKernels) {
  EXPECT_TRUE(Says(PlanChain(chain_, kBucket, model_, {.stand_ins = true}),
                   "the library has no sum kernels of its own"));
}

}  // namespace
}  // namespace sinter
