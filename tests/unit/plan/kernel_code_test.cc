#include "src/plan/kernel_code.h"

#include "src/explain/explain.h"
#include "src/plan/product_family.h"
#include "tests/support/damage.h"
#include "tests/support/stitch_schedules.h"
#include "tests/support/sum_family.h"
#include "tests/unit/plan/changed_spec.h"

namespace sinter {
namespace {

// What a kernel's code is, and what it is not.

using ::testing::ContainsRegex;

// Bytes of both fields of the kernel key.
std::string Identity(const KernelSpec& spec) {
  const absl::StatusOr<KernelCode> code = CodeOf(spec);
  EXPECT_TRUE(code.ok()) << code.status();
  return code.ok() ? code->Bytes() + code->ScheduleBytes() : "";
}

std::string SourceText(const KernelSpec& spec) {
  const auto kernel = Generate(spec, *BuiltinModel("h200"));
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? kernel->request.source : "";
}

KernelSpec Full(Dataflow dataflow) {
  ProductSequence p = SampleG7();
  if (dataflow == Dataflow::kProduct) p = FirstOf(p);
  SetResidual(&p, Residual::kAdded);
  SetBias(&p, 0);
  return SampleSpec(p, SampleSchedule(SampleG7(), dataflow));
}

// With half the rows, and as many blocks as they ask for.
void Halve(KernelSpec& spec) {
  ProductIn(&spec).sequence.m /= 2;
  if (RowOf(ProductOf(spec).schedule).cluster_owns_rows) ProductIn(&spec).schedule.grid /= 2;
}

KernelSpec SoftmaxSpec() {
  return StitchedSpec("softmax rows=M cols=1024",
                      testing::ScheduleOf(2, "block 128 unit 32 vec 8 keep x4 grid 2048"));
}

void ChangeStitch(KernelSpec& spec, absl::string_view words) {
  spec.body = MakeBody(Changed(*StitchOf(spec), words));
}

TEST(KernelCode, KnowsNoBufferOffsetRowsOrGrid) {
  constexpr char kChanges[] =
      "a.buffer=40 out.buffer=-1 out.offset_bytes=1048576 residual.offset_bytes=48 "
      "a.row_stride+=64 w1.row_stride+=64 flags=4096 constant_rows=true";
  for (Dataflow dataflow : DataflowsOf(SampleG7())) {
    const KernelSpec spec = Full(dataflow);
    std::vector<std::pair<std::string, KernelSpec>> others = {{"half the rows", spec}};
    Halve(others[0].second);
    for (const absl::string_view words : absl::StrSplit(kChanges, ' ')) {
      others.emplace_back(words, Changed(spec, words));
    }
    for (const auto& [change, other] : others) {
      SCOPED_TRACE(absl::StrCat(NameOf(dataflow), " ", change));
      EXPECT_EQ(Identity(other), Identity(spec));
      EXPECT_EQ(SourceText(other), SourceText(spec));
      // Ready flags are of those that wait; a recipe names no bucket.
      const bool flags = change == "flags=4096" && !IsCooperative(ProductOf(spec).schedule);
      const bool rows = change == "half the rows" &&
                        ProductOf(other).schedule.grid == ProductOf(spec).schedule.grid;
      EXPECT_EQ(*RecipeOf(other) == *RecipeOf(spec), flags || rows);
    }
    KernelSpec smaller = spec;
    ProductIn(&smaller).schedule.grid -= ProductOf(smaller).schedule.cluster;
    if (RowOf(dataflow).cluster_owns_rows) continue;  // its grid follows from its rows
    EXPECT_EQ(Identity(smaller), Identity(spec)) << NameOf(dataflow);
    EXPECT_EQ(SourceText(smaller), SourceText(spec)) << NameOf(dataflow);
    EXPECT_NE(RecipeOf(smaller)->grid, RecipeOf(spec)->grid);
  }
}

TEST(KernelCode, HoldsWhatSourceHoldsAsLiterals) {
  constexpr char kChanges[] =
      "out.row_stride+=8 out.offset_bytes=8 residual.row_stride+=8 residual.offset_bytes=8 "
      "constant_weights=false p.act=silu p.residual=rounded s.stages+=-1";
  const KernelSpec spec = Full(Dataflow::kGridExchange);
  std::set<std::string> identities = {Identity(spec)}, sources = {SourceText(spec)};
  for (const absl::string_view words : absl::StrSplit(kChanges, ' ')) {
    const KernelSpec other = Changed(spec, words);
    EXPECT_TRUE(identities.insert(Identity(other)).second) << words;
    EXPECT_TRUE(sources.insert(SourceText(other)).second) << words;
  }
}

TEST(KernelCode, OfAStitchedKernelKnowsNoneEither) {
  const KernelSpec spec = SoftmaxSpec();
  for (const char* words :
       {"operands[0].buffer=40", "operands[1].buffer=-1 operands[1].offset_bytes=1048576",
        "scratch_offset=65536", "schedule.grid=17"}) {
    KernelSpec other = spec;
    ChangeStitch(other, words);
    other.workspace_flags_offset = 64;
    EXPECT_EQ(Identity(other), Identity(spec)) << words;
    EXPECT_EQ(SourceText(other), SourceText(spec)) << words;
  }
  KernelSpec wider = spec;
  ChangeStitch(wider, "schedule.vector=4");
  EXPECT_NE(Identity(wider), Identity(spec));
}

TEST(KernelCode, NoTextNamesRowsOrBlocks) {
  for (Dataflow dataflow : DataflowsOf(SampleG7())) {
    EXPECT_THAT(SourceText(Full(dataflow)), Not(HasSubstr("m<="))) << NameOf(dataflow);
    EXPECT_THAT(SourceText(Full(dataflow)), Not(ContainsRegex(" grid[0-9]"))) << NameOf(dataflow);
  }
  EXPECT_THAT(SourceText(SoftmaxSpec()), Not(HasSubstr(" grid ")));
  EXPECT_EQ(CodeOf(Full(Dataflow::kProduct))->ProblemText(),
            "product n=768 k=768 act=relu bias1=1 residual=added layout=oi dtype=bf16");
  EXPECT_EQ(CodeOf(SoftmaxSpec())->ScheduleText(), "block 128 unit 32 vec 8 keep x4");
}

// Code and binding together are the spec: nothing of it is in neither.
TEST(KernelCode, WithTheBindingIsTheSpec) {
  for (Dataflow dataflow : DataflowsOf(SampleG7())) {
    KernelSpec spec = Full(dataflow);
    ProductIn(&spec).constant_rows = dataflow == Dataflow::kProduct;
    ProductIn(&spec).constant_weights = dataflow != Dataflow::kGridExchange;
    const KernelCode code = *CodeOf(spec);
    const ProductBinding binding = ProductBindingOf(spec);
    ProductBody body{.sequence = ProductKernels::Of(code).sequence};
    body.sequence.m = binding.rows;
    body.schedule = ProductKernels::Of(code).schedule;
    body.schedule.grid = binding.grid;
    body.operands = binding.operands;
    body.constant_weights = ProductKernels::Of(code).constant_weights;
    body.constant_rows = binding.constant_rows;
    KernelSpec joined{.family = code.family,
                      .body = MakeBody(std::move(body)),
                      .workspace_flags_offset = binding.flags_offset};
    EXPECT_TRUE(joined == spec) << NameOf(dataflow);
  }
  KernelSpec spec = SoftmaxSpec();
  ChangeStitch(spec, "scratch_offset=65536");
  spec.workspace_flags_offset = kGridBarrierOffset;
  const KernelCode code = *CodeOf(spec);
  const StitchBinding binding = StitchBindingOf(spec);
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = *StitchKernels::Of(code).body;
  stitch->schedule = StitchKernels::Of(code).schedule;
  stitch->schedule.grid = binding.grid;
  stitch->parts = StitchKernels::Of(code).parts;
  stitch->operands = binding.operands;
  stitch->scratch_offset = binding.scratch_offset;
  KernelSpec joined{.family = code.family,
                    .body = MakeBody(std::move(*stitch)),
                    .workspace_flags_offset = binding.flags_offset};
  EXPECT_TRUE(joined == spec);
}

TEST(KernelCode, TheRecipeNeedsNoSource) {
  for (Dataflow dataflow : DataflowsOf(SampleG7())) {
    const KernelSpec spec = Full(dataflow);
    EXPECT_TRUE(*RecipeOf(spec) == Generate(spec, *BuiltinModel("h200"))->recipe);
  }
  EXPECT_TRUE(*RecipeOf(SoftmaxSpec()) == Generate(SoftmaxSpec(), *BuiltinModel("h200"))->recipe);
}

TEST(KernelCode, ReadsBackAndTrustsNothing) {
  for (const KernelSpec& spec : {Full(Dataflow::kGridExchange), SoftmaxSpec()}) {
    const KernelCode code = *CodeOf(spec);
    const std::string bytes = code.Bytes(), schedule = code.ScheduleBytes();
    const KernelCode back = Got(ReadCode(bytes, schedule));
    EXPECT_EQ(back.Bytes(), bytes);
    EXPECT_EQ(back.ScheduleBytes(), schedule);
    EXPECT_EQ(back.ProblemText(), code.ProblemText());
    EXPECT_EQ(back.ScheduleText(), code.ScheduleText());
    const auto read = [&](const std::string& of) { return ReadCode(of, schedule); };
    ExpectTruncationsRefused(bytes, read);
    ExpectTruncationsRefused(schedule, [&](const std::string& of) { return ReadCode(bytes, of); });
    ExpectFlipsRefusedOrKept(bytes, read, [](const KernelCode& of) { return of.Bytes(); });
  }
}

TEST(KernelCode, AStitchedKernelWithoutABodyIsRefused) {
  KernelSpec spec = SoftmaxSpec();
  spec.body = nullptr;
  EXPECT_EQ(CodeOf(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

// A family that plans have never heard of: what is asked of a kernel reaches it.

KernelSpec SumOf(int grid, int buffer = 3) {
  return KernelSpec{.family = &testing::SumFamily(),
                    .body = MakeBody(OwnSpec<testing::SumCode>{{{4, 4096, 0}, {grid, 1}},
                                                               {{buffer, 0}, {buffer + 1, 0}}})};
}

Plan PlanOf(const KernelSpec& spec) {
  Plan plan{.bucket = 128};
  plan.kernels.emplace_back();
  plan.kernels[0].spec = spec;
  plan.kernels[0].ops = {{7}, false, 0};
  return plan;
}

TEST(AnotherFamily, IsCheckedAndPredicted) {
  const DeviceModel model = *BuiltinModel("h200");
  const KernelSpec spec = SumOf(8), large = SumOf(1000);
  EXPECT_TRUE(spec.family->Check(spec, *CodeOf(spec), model, nullptr)->cooperative);
  EXPECT_TRUE(Says(large.family->Check(large, *CodeOf(large), model, nullptr),
                   "grid 1000 is above the chip's"));
  EXPECT_EQ(spec.family->Predict(spec, 128, model)->bound, "nvlink");
}

TEST(AnotherFamily, IsGeneratedAndBound) {
  const KernelSpec spec = SumOf(8);
  const auto kernel = Got(Generate(spec, *BuiltinModel("h200")));
  EXPECT_EQ(kernel.request.source, "// sum of 4 ranks\n");
  EXPECT_EQ(kernel.request.entry, "sinter_sum");
  EXPECT_EQ(kernel.recipe.grid[0], 8u);
  EXPECT_EQ(kernel.recipe.args[0].index, 3);
  EXPECT_TRUE(*RecipeOf(spec) == kernel.recipe);
  KernelSpec empty = spec;
  empty.body = nullptr;
  EXPECT_EQ(Generate(empty, *BuiltinModel("h200")).status().message(),
            "a kernel of sum has no problem");
  EXPECT_NE(DeviceHeadersDigest()(spec), Digest());
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
  EXPECT_THAT(text, HasSubstr("sum of 4 ranks"));
  EXPECT_THAT(text, HasSubstr("grid 8"));
}

// Renderings are independent of families: text, JSON and drawing describe a kernel of any family.
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
  EXPECT_THAT(svg, HasSubstr("sum of 4 ranks"));
  EXPECT_THAT(ExplanationJson(e), HasSubstr("\"level\": \"together\""));
  EXPECT_THAT(PlanJson(plan), HasSubstr("\"family\": \"sum\""));
}

// Records are of listed families: bytes of another one are damage, not a crash.
TEST(AnotherFamily, IsReadOnlyWhereItIsListed) {
  const KernelSpec spec = SumOf(8);
  const std::string decisions = EncodeDecisions(DecisionsOf(PlanOf(spec)));
  EXPECT_TRUE(Says(DecodeDecisions(decisions), "a kernel of family 200"));
  const auto code = CodeOf(spec);
  EXPECT_TRUE(Says(ReadCode(code->Bytes(), code->ScheduleBytes()), "family 202"));
}

TEST(Families, HaveNumbersOfTheirOwn) {
  for (const KernelFamily* family : Families()) {
    EXPECT_EQ(FamilyOfNumber(family->number()), family) << family->name();
  }
  EXPECT_EQ(FamilyOfNumber(250), nullptr);
}

}  // namespace
}  // namespace sinter
