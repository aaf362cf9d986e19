// Grouped products that unpack weights of four bits: which ones of a chain they are, what planning
// makes of them, and what their kernels are asked to do.
#include "src/chain/composites_four_bits.h"
#include "src/chain/problem.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/normal/normal_form.h"
#include "src/plan/grouped_family.h"
#include "src/plan/kernel_code.h"
#include "tests/support/damage.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

std::shared_ptr<const Chain> ExpertsOf(const std::string& rest) {
  const std::string line = absl::StrCat("four_bit_grouped_gated_ffn m=M ", rest);
  Problem problem = Got(ParseProblem(line), line);
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))))->chain;
}

// The grouped products of a chain's runs where weights may be unpacked.
std::vector<GroupedProduct> GroupedIn(const Chain& chain) {
  Absorbed absorbed;
  absorbed.four_bits = true;
  std::vector<GroupedProduct> found;
  for (const GraphRun& run : FindProductRuns(chain, 8, nullptr, absorbed).runs) {
    if (run.own.family == &GroupedFamily()) found.push_back(GroupedKernels::Of(run.own));
  }
  return found;
}

constexpr char kSizes[] = "experts=8 top=2 n=192 k=128 l=64 act=silu";

TEST(FourBitExperts, ReadBackEveryFormat) {
  for (const char* rest : {"group=64", "group=32 zeros=1", "group=32 codes=e2m1 dtype=f16"}) {
    for (const char* order : {"gate_up", "interleaved"}) {
      SCOPED_TRACE(absl::StrCat(rest, " ", order));
      const std::vector<GroupedProduct> found =
          GroupedIn(*ExpertsOf(absl::StrCat(kSizes, " order=", order, " bias1=1 bias2=1 ", rest)));
      ASSERT_EQ(found.size(), 2u);
      const bool zeros = absl::StrContains(rest, "zeros");
      for (const GroupedProduct& p : found) {
        ASSERT_TRUE(p.HasCodes());
        EXPECT_EQ(p.codes.e2m1, absl::StrContains(rest, "e2m1"));
        EXPECT_EQ(p.codes.zero, zeros ? FourBitZero::kGroups : FourBitZero::kConstant);
        EXPECT_EQ(p.codes.byte_stride, p.k / 2);
        EXPECT_EQ(p.codes.byte_expert, p.WeightColumns() * p.k / 2);
        EXPECT_EQ(p.codes.scale_expert, p.WeightColumns() * p.k / p.codes.group);
        EXPECT_EQ(p.codes.zero_expert, zeros ? p.codes.scale_expert : 0);
        EXPECT_EQ(p.weights, p.rows);
      }
      EXPECT_TRUE(found[0].IsPair());
      EXPECT_FALSE(found[0].early);
      EXPECT_TRUE(found[1].early);  // its codes do not depend on the first product
    }
  }
}

TEST(FourBitExperts, OthersThatReadTheMatrixKeepItInMemory) {
  for (const bool given : {false, true}) {
    ChainBuilder b;
    const auto constant = [](int64_t n) { return Dim::Constant(n); };
    const ValueId a = *b.Input({DType::kBF16, {Dim::M(), constant(128)}});
    const ValueId w = *b.Input({DType::kS8, {constant(4), constant(48), constant(64)}});
    const ValueId scale = *b.Input({DType::kBF16, {constant(4), constant(48), constant(4)}});
    const ValueId ids = *b.Input({DType::kS32, {Dim::M(), constant(2)}});
    const ValueId matrix = *b.Cast(*AddDequantizeE2M1(b, w, scale), DType::kBF16);
    EXPECT_OK(b.Output(*b.Cast(*b.GroupedMatmul(a, matrix, ids, true), DType::kBF16)));
    if (given) {
      EXPECT_OK(b.Output(matrix));
    }
    const auto form = Got(NormalFormOf(std::make_shared<const Chain>(Got(b.Finish()))));
    const std::vector<GroupedProduct> found = GroupedIn(*form->chain);
    EXPECT_EQ(std::any_of(found.begin(), found.end(), [](const auto& p) { return p.HasCodes(); }),
              !given);
  }
}

TEST(FourBitExperts, AnFfnIsTwoKernelsAndASum) {
  const auto chain = ExpertsOf(
      "experts=32 top=4 n=2880 k=2880 l=2880 act=silu order=interleaved group=32 codes=e2m1 "
      "bias1=1 bias2=1 alpha=1.702 beta=1 limit=7");
  for (const int64_t m : {1, 64}) {
    const Plan plan = Got(PlanChain(*chain, m, *BuiltinModel("h200"), {})).chosen;
    ASSERT_TRUE(plan.absorbed.four_bits) << plan.ToText();
    EXPECT_EQ(plan.kernels.size(), 3u);
    const GeneratedKernel made = Got(Generate(plan.kernels[0].spec, *BuiltinModel("h200")));
    EXPECT_OK(made.recipe.Check());
    EXPECT_THAT(made.request.source, HasSubstr("GroupedFourBit<Config>::run"));
    EXPECT_THAT(made.request.source, HasSubstr("kForm = 2"));
    // Rows, bytes, ids, scales and biases are buffers of the chain; what it stores is not.
    const auto& places = GroupedKernels::Of(plan.kernels[0].spec).places;
    ASSERT_EQ(places.size(), 6u);
    for (size_t i = 0; i < 5; ++i) EXPECT_NE(places[i].buffer, kWorkspaceBuffer);
    EXPECT_EQ(places[5].buffer, kWorkspaceBuffer);
    EXPECT_TRUE(Got(DecodeDecisions(EncodeDecisions(DecisionsOf(plan)))).absorbed.four_bits);
  }
}

TEST(FourBitExperts, BatchInvariantPlansHaveNone) {
  FusionOptions options;
  options.batch_invariant = true;
  const auto chain = ExpertsOf(absl::StrCat(kSizes, " group=32"));
  const Plan plan = Got(PlanChain(*chain, 8, *BuiltinModel("h200"), options)).chosen;
  EXPECT_FALSE(plan.absorbed.four_bits) << plan.ToText();
}

GroupedProduct SampleOfExperts(const char* rest = "group=32") {
  return GroupedIn(*ExpertsOf(absl::StrCat(kSizes, " ", rest))).at(0);
}

TEST(FourBitExperts, BytesReadBackAndDamageIsRefused) {
  const GroupedProduct p = SampleOfExperts("group=64 zeros=1");
  EXPECT_EQ(Got(ReadFrom<GroupedProduct>(Written(p))), p);
  ExpectRefusedChanges(
      "tests/unit/four_bit/refused.txt", "experts", p,
      [](const GroupedProduct& o) { return ReadFrom<GroupedProduct>(Written(o)).status(); },
      absl::StatusCode::kDataLoss);
}

TEST(FourBitExperts, SchedulesAreLegalAndRefusalsNameFieldValueAndBound) {
  const DeviceModel model = *BuiltinModel("h200");
  const GroupedProduct p = SampleOfExperts();
  const std::vector<RankedGrouped> ranked = SearchGrouped(p, 8, model, false);
  ASSERT_FALSE(ranked.empty());
  for (const RankedGrouped& one : ranked) {
    EXPECT_OK(CheckSchedule(p, one.schedule, model));
    EXPECT_LE(one.schedule.Threads(), one.schedule.block_m > 8 ? 640 : 768);
    EXPECT_EQ(Got(ReadFrom<GroupedSchedule>(Written(one.schedule))), one.schedule);
  }
  const GroupedSchedule best = ranked.front().schedule;
  ExpectRefusedSchedules("tests/unit/four_bit/refused.txt", "schedules of experts", p, best, model);
  GroupedProduct plain = p;
  plain.codes = FourBitWeights();
  EXPECT_TRUE(Says(CheckSchedule(plain, best, model), "must be 0"));
}

}  // namespace
}  // namespace sinter
