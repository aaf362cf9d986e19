// What a kernel's code is, and what it is not.
#include "src/plan/kernel_code.h"

#include "src/plan/product_family.h"
#include "src/plan/stitch_family.h"
#include "tests/support/stitch_schedules.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {
namespace {

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

OperandBinding& OperandAt(KernelSpec& spec, Role role) {
  return *const_cast<OperandBinding*>(FindOperand(ProductIn(&spec).operands, role));
}

KernelSpec Stitched(const char* line, StitchSchedule schedule) {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = ParseProblem(line)->chain;
  stitch->schedule = std::move(schedule);
  for (int i = 0; i < stitch->body.num_inputs() + stitch->body.num_outputs(); ++i) {
    stitch->operands.push_back({i, 0});
  }
  return KernelSpec{.family = &StitchFamily(), .body = MakeBody(std::move(*stitch))};
}

KernelSpec SoftmaxSpec() {
  return Stitched("softmax rows=M cols=1024",
                  testing::ScheduleOf(2, "block 128 unit 32 vec 8 keep x4 grid 2048"));
}

void Change(KernelSpec& spec, const std::function<void(StitchSpec&)>& change) {
  StitchSpec stitch = *StitchOf(spec);
  change(stitch);
  spec.body = MakeBody(std::move(stitch));
}

TEST(KernelCode, KnowsNoBufferOffsetRowsOrGrid) {
  const std::vector<void (*)(KernelSpec&)> changes = {
      [](KernelSpec& s) { OperandAt(s, Role::kA).buffer = 40; },
      [](KernelSpec& s) { OperandAt(s, Role::kOut).buffer = kWorkspaceBuffer; },
      [](KernelSpec& s) { OperandAt(s, Role::kOut).offset_bytes = 1 << 20; },
      [](KernelSpec& s) { OperandAt(s, Role::kResidual).offset_bytes = 48; },
      [](KernelSpec& s) { OperandAt(s, Role::kA).row_stride += 64; },
      [](KernelSpec& s) { OperandAt(s, Role::kW).row_stride += 64; },
      [](KernelSpec& s) { s.workspace_flags_offset = 4096; },
      [](KernelSpec& s) { ProductIn(&s).constant_rows = true; },
      Halve,
  };
  for (Dataflow dataflow : DataflowsOf(SampleG7())) {
    const KernelSpec spec = Full(dataflow);
    for (size_t i = 0; i < changes.size(); ++i) {
      KernelSpec other = spec;
      changes[i](other);
      EXPECT_EQ(Identity(other), Identity(spec)) << NameOf(dataflow) << " change " << i;
      EXPECT_EQ(SourceText(other), SourceText(spec)) << NameOf(dataflow) << " change " << i;
      // Ready flags are of those that wait; a recipe names no bucket.
      const bool flags = i == 6 && !IsCooperative(ProductOf(spec).schedule);
      const bool rows = i == 8 && ProductOf(other).schedule.grid == ProductOf(spec).schedule.grid;
      EXPECT_EQ(*RecipeOf(other) == *RecipeOf(spec), flags || rows) << NameOf(dataflow) << i;
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
  const std::vector<void (*)(KernelSpec&)> changes = {
      [](KernelSpec& s) { OperandAt(s, Role::kOut).row_stride += 8; },
      [](KernelSpec& s) { OperandAt(s, Role::kOut).offset_bytes = 8; },
      [](KernelSpec& s) { OperandAt(s, Role::kResidual).row_stride += 8; },
      [](KernelSpec& s) { OperandAt(s, Role::kResidual).offset_bytes = 8; },
      [](KernelSpec& s) { ProductIn(&s).constant_weights = false; },
      [](KernelSpec& s) { SetActivation(&ProductIn(&s).sequence, Activation::kSilu); },
      [](KernelSpec& s) { SetResidual(&ProductIn(&s).sequence, Residual::kAddedRounded); },
      [](KernelSpec& s) { ProductIn(&s).schedule.stages -= 1; },
  };
  const KernelSpec spec = Full(Dataflow::kGridExchange);
  std::set<std::string> identities = {Identity(spec)}, sources = {SourceText(spec)};
  for (size_t i = 0; i < changes.size(); ++i) {
    KernelSpec other = spec;
    changes[i](other);
    EXPECT_TRUE(identities.insert(Identity(other)).second) << i;
    EXPECT_TRUE(sources.insert(SourceText(other)).second) << i;
  }
}

TEST(KernelCode, OfAStitchedKernelKnowsNoneEither) {
  const std::vector<void (*)(StitchSpec&)> changes = {
      [](StitchSpec& s) { s.operands[0].buffer = 40; },
      [](StitchSpec& s) {
        s.operands[1] = {kWorkspaceBuffer, 1 << 20};
      },
      [](StitchSpec& s) { s.scratch_offset = 1 << 16; },
      [](StitchSpec& s) { s.schedule.grid = 17; },
  };
  const KernelSpec spec = SoftmaxSpec();
  for (size_t i = 0; i < changes.size(); ++i) {
    KernelSpec other = spec;
    Change(other, changes[i]);
    other.workspace_flags_offset = 64;
    EXPECT_EQ(Identity(other), Identity(spec)) << i;
    EXPECT_EQ(SourceText(other), SourceText(spec)) << i;
  }
  KernelSpec wider = spec;
  Change(wider, [](StitchSpec& s) { s.schedule.vector = 4; });
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
  Change(spec, [](StitchSpec& s) { s.scratch_offset = 1 << 16; });
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
    for (size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_EQ(ReadCode(bytes.substr(0, n), schedule).status().code(),
                absl::StatusCode::kDataLoss);
    }
    for (size_t n = 0; n < schedule.size(); ++n) {
      EXPECT_FALSE(ReadCode(bytes, schedule.substr(0, n)).ok());
    }
    for (size_t i = 0; i < 8 * bytes.size(); ++i) {
      std::string flipped = bytes;
      flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
      const absl::StatusOr<KernelCode> other = ReadCode(flipped, schedule);
      if (!other.ok()) continue;
      EXPECT_EQ(other->Bytes(), flipped) << "bit " << i << " is lost";
    }
  }
}

TEST(KernelCode, AStitchedKernelWithoutABodyIsRefused) {
  KernelSpec spec = SoftmaxSpec();
  spec.body = nullptr;
  EXPECT_EQ(CodeOf(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sinter
