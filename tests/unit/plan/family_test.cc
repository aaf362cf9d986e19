// A family that plans have never heard of: what is asked of a kernel reaches it.
#include "src/plan/family.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/explain/explain.h"
#include "src/explain/render.h"
#include "src/plan/codegen.h"
#include "src/plan/row_order.h"

namespace sinter {
namespace {

using ::testing::HasSubstr;

// Sums a buffer over GPUs.
struct SumOverRanks {
  int ranks = 2, grid = 1;
  int64_t columns = 0;
  int buffer = 0;
};

class SumFamily final : public KernelFamily {
 public:
  static const SumOverRanks& Of(const std::shared_ptr<const void>& own) {
    return *static_cast<const SumOverRanks*>(own.get());
  }

  absl::string_view name() const override { return "sum"; }
  uint8_t number() const override { return 200; }
  std::string ProblemText(const KernelSpec& spec) const override {
    return absl::StrCat("sum of ", Of(spec.own).ranks, " ranks, ", Of(spec.own).columns,
                        " columns");
  }
  std::string ScheduleText(const KernelSpec& spec) const override {
    return absl::StrCat("grid ", Of(spec.own).grid);
  }
  std::vector<KernelBuffer> Buffers(const KernelSpec& spec, int64_t bucket) const override {
    const SumOverRanks& sum = Of(spec.own);
    const int64_t bytes = bucket * sum.columns * 2;
    return {{sum.buffer, 0, "bf16[M,4096]", bytes, false, true},
            {sum.buffer + 1, 0, "bf16[M,4096]", bytes, true, true}};
  }
  bool Equal(const KernelSpec& a, const KernelSpec& b) const override {
    return ScheduleBytes(a) == ScheduleBytes(b) && ProblemText(a) == ProblemText(b);
  }
  std::string ScheduleBytes(const KernelSpec& spec) const override {
    ByteWriter w;
    w.U32(static_cast<uint32_t>(Of(spec.own).grid));
    return w.Take();
  }
  void WriteExecuted(const KernelSpec& spec, ByteWriter& w) const override {
    w.I64(Of(spec.own).columns);
    w.I64(Of(spec.own).buffer);
  }
  void WriteSourceKey(const KernelSpec& spec, ByteWriter& w) const override {
    w.I64(Of(spec.own).columns);
  }
  bool UsesM(const KernelSpec&) const override { return true; }
  int64_t Rows(const KernelSpec&, int64_t bucket) const override { return bucket; }
  std::string RowOrder(const KernelSpec& spec) const override {
    return absl::StrCat("ranks 0 to ", Of(spec.own).ranks - 1, "\n");
  }
  absl::Status CheckRowOrder(const KernelSpec&) const override { return absl::OkStatus(); }
  absl::StatusOr<KernelLaunch> Check(const KernelSpec& spec, const KernelCode&,
                                     const DeviceModel& model, StitchBudget*) const override {
    const SumOverRanks& sum = Of(spec.own);
    if (sum.grid > model.sm_count) {
      return absl::FailedPreconditionError(
          absl::StrCat("grid ", sum.grid, " is above the chip's ", model.sm_count));
    }
    return KernelLaunch{true, 0};
  }
  bool LeavesInWorkspace(const KernelSpec&) const override { return false; }
  absl::StatusOr<Prediction> Predict(const KernelSpec& spec, int64_t bucket,
                                     const DeviceModel&) const override {
    Prediction time;
    time.total_us = static_cast<double>(bucket * Of(spec.own).columns) * 1e-6;
    time.bound = "nvlink";
    return time;
  }
  absl::StatusOr<KernelCode> Code(const KernelSpec& spec) const override {
    if (spec.own == nullptr) return absl::InvalidArgumentError("a sum of nothing");
    KernelCode code;
    code.family = this;
    code.own = spec.own;
    return code;
  }
  absl::Status WriteRequest(const KernelSpec&, const KernelCode& code,
                            CompileRequest* request) const override {
    request->source = absl::StrCat("// ", CodeProblemText(code), "\n");
    request->name = "sum.cu";
    return absl::OkStatus();
  }
  std::string Entry(const KernelCode&) const override { return "sinter_sum"; }
  std::vector<std::string> Headers(const KernelSpec&) const override {
    return {"kernels/product.cuh", "kernels/program.cuh"};
  }
  void WriteCode(const KernelCode& code, ByteWriter& w) const override {
    w.I64(Of(code.own).columns);
  }
  std::string CodeScheduleBytes(const KernelCode&) const override { return ""; }
  std::string CodeProblemText(const KernelCode& code) const override {
    return absl::StrCat("sum of ", Of(code.own).ranks, " ranks");
  }
  std::string CodeScheduleText(const KernelCode&) const override { return "one block a row"; }
  absl::Status ReadCode(ByteReader& r, absl::string_view, KernelCode* code) const override {
    auto sum = std::make_shared<SumOverRanks>();
    sum->columns = r.I64();
    code->own = std::move(sum);
    return absl::OkStatus();
  }
  absl::StatusOr<LaunchRecipe> Recipe(const KernelSpec& spec, const KernelCode&) const override {
    LaunchRecipe recipe;
    recipe.entry = "sinter_sum";
    recipe.grid = {static_cast<uint32_t>(Of(spec.own).grid), 1, 1};
    recipe.block = {128, 1, 1};
    ArgSlot slot;
    slot.kind = ArgKind::kPointer;
    slot.index = Of(spec.own).buffer;
    recipe.args.push_back(slot);
    return recipe;
  }
  void Decide(const KernelSpec& spec, KernelDecision* decision) const override {
    decision->own = ScheduleBytes(spec);
  }
  void WriteChoice(const KernelDecision& decision, ByteWriter& w) const override {
    w.Bytes(decision.own);
  }
  absl::Status ReadChoice(uint32_t, ByteReader& r, KernelDecision* decision) const override {
    decision->own = std::string(r.Bytes());
    return absl::OkStatus();
  }
  bool SameSource(const KernelDecision&, const KernelDecision&) const override { return true; }
};

const SumFamily& Sums() {
  static const SumFamily family;
  return family;
}

KernelSpec SumOf(int grid, int buffer = 3) {
  KernelSpec spec;
  spec.family = &Sums();
  spec.own = std::make_shared<const SumOverRanks>(SumOverRanks{4, grid, 4096, buffer});
  return spec;
}

Plan PlanOf(const KernelSpec& spec) {
  Plan plan;
  plan.bucket = 128;
  plan.kernels.emplace_back();
  plan.kernels[0].spec = spec;
  plan.kernels[0].ops = {{7}, false, 0};
  return plan;
}

TEST(AnotherFamily, IsCheckedAndPredicted) {
  const DeviceModel model = *BuiltinModel("h200");
  const KernelSpec spec = SumOf(8), large = SumOf(1000);
  EXPECT_TRUE(spec.family->Check(spec, *CodeOf(spec), model, nullptr)->cooperative);
  EXPECT_THAT(
      std::string(large.family->Check(large, *CodeOf(large), model, nullptr).status().message()),
      HasSubstr("grid 1000 is above the chip's"));
  EXPECT_EQ(spec.family->Predict(spec, 128, model)->bound, "nvlink");
}

TEST(AnotherFamily, IsGeneratedAndBound) {
  const KernelSpec spec = SumOf(8);
  const auto kernel = Generate(spec, *BuiltinModel("h200"));
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->request.source, "// sum of 4 ranks\n");
  EXPECT_EQ(kernel->request.entry, "sinter_sum");
  EXPECT_EQ(kernel->recipe.grid[0], 8u);
  EXPECT_EQ(kernel->recipe.args[0].index, 3);
  EXPECT_TRUE(*RecipeOf(spec) == kernel->recipe);
  KernelSpec empty = spec;
  empty.own = nullptr;
  EXPECT_EQ(Generate(empty, *BuiltinModel("h200")).status().message(), "a sum of nothing");
  EXPECT_NE(DeviceHeadersDigest(DeviceHeaderMap())(spec), Digest());
}

TEST(AnotherFamily, HasACodeAPlanAndADigest) {
  const KernelSpec spec = SumOf(8), other = SumOf(16), moved = SumOf(8, 4);
  EXPECT_EQ(CodeOf(spec)->Bytes(), CodeOf(moved)->Bytes());
  EXPECT_EQ(CodeOf(spec)->ProblemText(), "sum of 4 ranks");
  EXPECT_FALSE(spec == other);
  EXPECT_TRUE(spec == SumOf(8));
  EXPECT_NE(PlanOf(spec).PlanDigest(), PlanOf(other).PlanDigest());
  EXPECT_NE(PlanOf(spec).PlanDigest(), PlanOf(moved).PlanDigest());
  EXPECT_TRUE(PlanOf(spec).UsesM());
  EXPECT_FALSE(PlanOf(spec).IsStandIn());
  EXPECT_EQ(RowOrder(PlanOf(spec)), "ranks 0 to 3\n");
}

TEST(AnotherFamily, IsDescribed) {
  const std::string text = PlanOf(SumOf(8)).ToText();
  EXPECT_THAT(text, HasSubstr("sum of 4 ranks, 4096 columns"));
  EXPECT_THAT(text, HasSubstr("grid 8"));
}

// Renderings know no family: a kernel of any is told of by text, JSON and drawing.
TEST(AnotherFamily, IsToldOfByEveryRendering) {
  Plan plan = PlanOf(SumOf(8));
  plan.kernels.push_back(plan.kernels[0]);
  plan.kernels[0].prediction.total_us = plan.kernels[1].prediction.total_us = 5;
  plan.kernels[0].prediction.fixed_us = plan.kernels[1].prediction.fixed_us = 2;
  plan.kernels[1].spec = SumOf(8, 4);
  const DeviceModel model = *BuiltinModel("h200");
  Explanation e = Describe(plan, model, {{"", "", "", "partial"}, {false, false, false, true}});
  ExplainFusion(model, &e);
  EXPECT_EQ(e.computes, "2 kernels: 2 x sum");
  EXPECT_EQ(e.equal, (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(e.kernels[0].border_bytes, 2 * 128 * 4096 * 2);
  ASSERT_EQ(e.apart.size(), 1u);
  EXPECT_EQ(e.apart[0].why, "kernels that are never one");
  const std::string text = ExplanationText(e), svg = PlanSvg(e);
  EXPECT_THAT(text, HasSubstr("reads      partial (#3) bf16[M,4096]"));
  EXPECT_THAT(text, HasSubstr("together + fixed: predicted 5.00 us"));
  EXPECT_THAT(svg, HasSubstr("together + fixed = 5.00 us"));
  EXPECT_THAT(svg, HasSubstr("sum of 4 ranks, 4096 columns"));
  EXPECT_THAT(ExplanationJson(e), HasSubstr("\"level\": \"together\""));
  EXPECT_THAT(PlanJson(plan), HasSubstr("\"family\": \"sum\""));
}

// Records are of listed families: bytes of another one are damage, not a crash.
TEST(AnotherFamily, IsReadOnlyWhereItIsListed) {
  const KernelSpec spec = SumOf(8);
  const std::string decisions = EncodeDecisions(DecisionsOf(PlanOf(spec)));
  EXPECT_THAT(std::string(DecodeDecisions(decisions).status().message()),
              HasSubstr("a kernel of family 200"));
  const auto code = CodeOf(spec);
  EXPECT_THAT(std::string(ReadCode(code->Bytes(), code->ScheduleBytes()).status().message()),
              HasSubstr("family 202"));
}

TEST(Families, HaveNumbersOfTheirOwn) {
  for (const KernelFamily* family : Families()) {
    EXPECT_EQ(FamilyOfNumber(family->number()), family) << family->name();
  }
  EXPECT_EQ(FamilyOfNumber(250), nullptr);
}

}  // namespace
}  // namespace sinter
