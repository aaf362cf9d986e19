#include <cstring>
#include <limits>

#include "gtest/gtest.h"
#include "src/plan/plan.h"
#include "src/plan/spec_codec.h"
#include "tests/support/sequences.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

TEST(PlanCodec, RoundTripsEveryField) {
  for (Plan plan : {SampleFusedPlan(), SampleUnfusedPlan()}) {
    plan.kernels[0].measured_us = 9.5;
    plan.kernels[0].kernel_digest = Sha256("kernel");
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->Encode(), plan.Encode());
    EXPECT_EQ(back->ToJson(), plan.ToJson());
    EXPECT_EQ(back->ToText(), plan.ToText());
    EXPECT_TRUE(back->PlanDigest() == plan.PlanDigest());
    EXPECT_TRUE(back->kernels[0].spec == plan.kernels[0].spec);
  }
}

TEST(PlanCodec, KeepsResiduals) {
  const Plan plain = SampleFusedPlan();
  for (const Residual residual : {Residual::kAdded, Residual::kAddedRounded}) {
    Plan plan = plain;
    KernelSpec& spec = plan.kernels[0].spec;
    SetResidual(&spec.sequence, residual);
    SetSumActivation(&spec.sequence, Activation::kSilu);
    spec.operands.push_back({Role::kResidual, 1, 32, 1032});
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->kernels[0].spec == spec);
    EXPECT_EQ(ResidualOf(back->kernels[0].spec.sequence), residual);
    EXPECT_FALSE(plan.PlanDigest() == plain.PlanDigest());
    EXPECT_NE(plan.ToJson().find(residual == Residual::kAdded ? "\"residual\": \"added\""
                                                              : "\"residual\": \"rounded\""),
              std::string::npos);
    EXPECT_NE(plan.ToText().find("residual=#1+32/1032"), std::string::npos) << plan.ToText();
    EXPECT_NE(plan.ToText().find(" sum_act=silu "), std::string::npos) << plan.ToText();
    EXPECT_NE(plan.ToJson().find("\"sum_activation\": \"silu\""), std::string::npos);
    spec.operands.back() = {Role::kResidual, kWorkspaceBuffer, plan.workspace_bytes - 1024, 1024};
    EXPECT_FALSE(Plan::Decode(plan.Encode()).ok()) << "outside the workspace";
  }
  EXPECT_EQ(plain.ToJson().find("residual"), std::string::npos);
}

TEST(PlanCodec, KeepsProductsOfCodes) {
  Plan plan = SampleUnfusedPlan();
  KernelSpec& spec = plan.kernels[0].spec;
  SetCodes(&spec.sequence, DType::kBF16, ScaleKind::kBlock, ScaleKind::kVector);
  SetResidual(&spec.sequence, Residual::kAddedRounded);
  spec.sequence[0].epilogue.Set(StepOf(EpilogueOp::kBias, DType::kF32));
  spec.schedule.block_k = 128;
  const Plan before = plan;
  const auto back = Plan::Decode(plan.Encode());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->kernels[0].spec == spec);
  EXPECT_EQ(back->Encode(), plan.Encode());
  spec.sequence[0].result = DType::kF16;
  EXPECT_FALSE(plan.PlanDigest() == before.PlanDigest());
  plan = before;
  spec.sequence[0].rows.scales = {ScaleKind::kVector, 0, 0};
  const Plan promoted = plan;
  spec.sequence[0].accumulate = Accumulate::kFast;
  EXPECT_FALSE(plan.PlanDigest() == promoted.PlanDigest());
  EXPECT_NE(spec.sequence.Canonical(), promoted.kernels[0].spec.sequence.Canonical());
  const auto fast = Plan::Decode(plan.Encode());
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_TRUE(fast->kernels[0].spec == spec);
  const auto read = ProductSequence::FromCanonical(spec.sequence.Canonical());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->front() == spec.sequence.front());
  EXPECT_NE(plan.ToText().find(" accumulate=fast"), std::string::npos) << plan.ToText();
  EXPECT_NE(plan.ToJson().find("\"accumulate\": \"fast\""), std::string::npos) << plan.ToJson();
  EXPECT_EQ(promoted.ToJson().find("accumulate"), std::string::npos);
  plan = before;
  SetCodes(&spec.sequence, DType::kBF16, ScaleKind::kVector, ScaleKind::kVector, DType::kS8);
  spec.schedule.first.block_n = 32;
  const auto s8 = Plan::Decode(plan.Encode());
  ASSERT_TRUE(s8.ok()) << s8.status();
  EXPECT_TRUE(s8->kernels[0].spec == spec);
  plan = before;
  spec.sequence[0].weights.scales.kind = ScaleKind::kTensor;
  EXPECT_FALSE(plan.PlanDigest() == before.PlanDigest());
}

TEST(PlanCodec, KeepsResultsOfF32) {
  Plan plan = SampleUnfusedPlan();
  KernelSpec& spec = plan.kernels[0].spec;
  const Digest before = plan.PlanDigest();
  spec.sequence[0].result = DType::kF32;
  for (OperandBinding& operand : spec.operands) {
    if (operand.role == Role::kOut) operand.row_stride *= 2;
  }
  EXPECT_FALSE(plan.PlanDigest() == before);
  ByteWriter w;
  WriteSpec(spec, w);
  const std::string bytes = w.Take();
  ByteReader r(bytes);
  const auto back = ReadSpec(r);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == spec);
  EXPECT_NE(plan.ToText().find(" result=f32"), std::string::npos) << plan.ToText();
}

TEST(PlanCodec, KeepsWhereScalesLie) {
  Plan plan = SampleUnfusedPlan();
  KernelSpec& spec = plan.kernels[0].spec;
  SetCodes(&spec.sequence, DType::kBF16, ScaleKind::kBlock, ScaleKind::kVector);
  spec.schedule.block_k = 128;
  const Plan before = plan;
  for (const int64_t rows : {0, 512}) {
    SetScaleStrides(&spec.sequence, rows);
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->kernels[0].spec == spec);
    EXPECT_FALSE(plan.PlanDigest() == before.PlanDigest());
  }
}

TEST(PlanCodec, KeepsResultsInCodes) {
  Plan plan = SampleUnfusedPlan();
  KernelSpec& spec = plan.kernels[0].spec;
  SetCodes(&spec.sequence, DType::kF32, ScaleKind::kVector, ScaleKind::kVector);
  spec.schedule.block_k = spec.schedule.first.block_n = 128;
  spec.schedule.grid = spec.schedule.cluster;
  for (const QuantizeRule& rule :
       {QuantizeRule{}, QuantizeRule{128, 1e-10f, 0, false}, QuantizeRule{128, 0.5f, 3, true}}) {
    SetQuantized(&spec.sequence, rule);
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->kernels[0].spec == spec);
    const auto sequence = ProductSequence::FromCanonical(spec.sequence.Canonical());
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_TRUE(sequence->back() == spec.sequence.back());
    const std::string text = absl::StrCat(" result=e4m3 quantize=", ToString(rule));
    EXPECT_NE(plan.ToText().find(text), std::string::npos) << plan.ToText();
  }
}

TEST(PlanCodec, KeepsScalings) {
  const Plan plain = SampleFusedPlan();
  Plan plan = plain;
  KernelSpec& spec = plan.kernels[0].spec;
  SetFactor(&spec.sequence, 1, RowFactor::kF32);
  spec.operands.push_back({Role::kFactor2, 1, 64, 1});
  for (const float constant : {1.0f, 0.1f}) {
    SetScale(&spec.sequence, 0, constant);
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->kernels[0].spec == spec);
    EXPECT_FALSE(plan.PlanDigest() == plain.PlanDigest());
  }
  EXPECT_NE(plan.ToJson().find("\"factor2\": \"f32\""), std::string::npos) << plan.ToJson();
  EXPECT_NE(plan.ToText().find("scale1=0.1 factor2=f32"), std::string::npos) << plan.ToText();
  // 128 rows of 4 bytes.
  spec.operands.back() = {Role::kFactor2, kWorkspaceBuffer, plan.workspace_bytes - 512, 1};
  EXPECT_TRUE(Plan::Decode(plan.Encode()).ok());
  spec.operands.back().offset_bytes += 4;
  EXPECT_FALSE(Plan::Decode(plan.Encode()).ok()) << "outside the workspace";
  EXPECT_EQ(plain.ToJson().find("factor"), std::string::npos);
}

// Whatever CheckSequence lets through comes back.
TEST(PlanCodec, KeepsEveryFormOfProducts) {
  int kept = 0, norms = 0;
  for (int bits = 0; bits < 1 << 11; ++bits) {
    const auto bit = [bits](int i) { return (bits >> i & 1) != 0; };
    Plan plan = bit(0) ? SampleFusedPlan() : SampleUnfusedPlan();
    KernelSpec& spec = plan.kernels[0].spec;
    ProductSequence& s = spec.sequence;
    const int last = s.size() - 1;
    SetPair(&s, bit(1));
    SetActivation(&s, bit(2) ? Activation::kRelu : Activation::kIdentity);
    SetElement(&s, bit(3) ? DType::kF16 : DType::kBF16);
    SetBias(&s, 0, bit(4));
    SetBias(&s, last, bit(5));
    SetScale(&s, last, bit(6) ? 0.1f : 1);
    SetFactor(&s, 0, static_cast<RowFactor>(bits >> 7 & 1));
    SetFactor(&s, last, static_cast<RowFactor>(2 * (bits >> 8 & 1)));
    SetResidual(&s, static_cast<Residual>((bits >> 9) % 3));
    if (bit(2)) SetSumActivation(&s, static_cast<Activation>(bits % 5));
    if (bit(10) && !bit(7) && last == 0) {
      SetNorm(&s, 0, 1e-6f);
      spec.schedule.block_m = 48;
      spec.schedule.warpgroups_m = 1;
      spec.schedule.cluster = spec.schedule.grid = spec.schedule.first.split_k = 1;
    }
    if (!CheckScheduleFields(s, spec.schedule).ok()) continue;
    norms += s[0].epilogue.has_norm();
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_TRUE(back.ok()) << back.status() << " " << s.ToString();
    ASSERT_TRUE(back->kernels[0].spec == spec) << s.ToString();
    ++kept;
  }
  EXPECT_GT(kept, 1000);
  EXPECT_GT(norms, 50);
}

TEST(PlanCodec, KeepsScalesOfColumns) {
  int kept = 0;
  const auto set = [](ProductSequence* s, int product, int which) {
    if (which > 0) SetColumnScale(s, product, which == 1 ? DType::kF32 : s->element());
  };
  for (const DType element : {DType::kBF16, DType::kF16}) {
    for (int which = 0; which < 9; ++which) {
      for (const bool two : {false, true}) {
        Plan plan = two ? SampleFusedPlan() : SampleUnfusedPlan();
        ProductSequence& s = plan.kernels[0].spec.sequence;
        SetElement(&s, element);
        set(&s, 0, which % 3);
        if (two) set(&s, 1, which / 3);
        const auto back = Plan::Decode(plan.Encode());
        ASSERT_TRUE(back.ok()) << back.status() << " " << s.ToString();
        EXPECT_TRUE(back->kernels[0].spec == plan.kernels[0].spec) << s.ToString();
        const bool json = plan.ToJson().find("\"scale_w1\"") != std::string::npos;
        EXPECT_EQ(json, which % 3 > 0) << s.ToString();
        ++kept;
      }
    }
  }
  EXPECT_EQ(kept, 36);
}

TEST(PlanCodec, KernelsOfConstantRowsAreOfTheirOwnBucket) {
  Plan plan = SampleUnfusedPlan();
  const Digest before = plan.PlanDigest();
  plan.bucket = 64;
  EXPECT_FALSE(Plan::Decode(plan.Encode()).ok());
  for (PlannedKernel& kernel : plan.kernels) kernel.spec.constant_rows = true;
  const auto back = Plan::Decode(plan.Encode());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->kernels[0].spec == plan.kernels[0].spec);
  EXPECT_TRUE(back->kernels[0].spec.constant_rows);
  EXPECT_FALSE(plan.PlanDigest() == before);
}

TEST(PlanCodec, EveryTruncationIsDataLoss) {
  const std::string bytes = SampleUnfusedPlan().Encode();
  for (size_t cut = 0; cut < bytes.size(); cut++) {
    const auto plan = Plan::Decode(absl::string_view(bytes).substr(0, cut));
    ASSERT_FALSE(plan.ok()) << cut;
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kDataLoss) << plan.status();
  }
  EXPECT_FALSE(Plan::Decode(bytes + '\0').ok());
}

TEST(PlanCodec, EveryFlippedBitGivesAStatusOrAPlanWithinBounds) {
  const std::string bytes = SampleFusedPlan().Encode();
  for (size_t i = 0; i < bytes.size() * 8; i++) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << (i % 8)));
    const auto plan = Plan::Decode(damaged);
    if (!plan.ok()) continue;
    for (const PlannedKernel& kernel : plan->kernels) {
      EXPECT_TRUE(CheckScheduleFields(kernel.spec.sequence, kernel.spec.schedule).ok());
    }
    EXPECT_FALSE(plan->ToText().empty());
    EXPECT_FALSE(plan->ToJson().empty());
  }
}

TEST(PlanCodec, RefusesWhatDoesNotAddUp) {
  struct Case {
    const char* message;
    void (*change)(Plan&);
  };
  const Case cases[] = {
      {"0 kernels", [](Plan& p) { p.kernels.clear(); }},
      {"a kernel of another bucket", [](Plan& p) { p.bucket = 64; }},
      {"not finite",
       [](Plan& p) { p.kernels[0].measured_us = std::numeric_limits<double>::quiet_NaN(); }},
      {"negative", [](Plan& p) { p.kernels[0].prediction.hbm_us = -1; }},
      {"role a is bound twice", [](Plan& p) { p.kernels[0].spec.operands[1].role = Role::kA; }},
      {"buffer -2", [](Plan& p) { p.kernels[0].spec.operands[0].buffer = -2; }},
      {"row stride -1", [](Plan& p) { p.kernels[0].spec.operands[0].row_stride = -1; }},
      {"role c lies outside the workspace", [](Plan& p) { p.workspace_bytes -= 1; }},
      {"role partial_out lies outside the workspace",
       [](Plan& p) {
         KernelSpec& spec = p.kernels[0].spec;
         spec.sequence = SampleRangesProblem();
         spec.schedule = SampleRanges();
         spec.operands = {{Role::kPartialOut, kWorkspaceBuffer, kWorkspaceFlagBytes, 0}};
         p.workspace_bytes = kWorkspaceFlagBytes + 48 * 64 * 256 * 4 - 1;
       }},
      {"ready flags lie outside",
       [](Plan& p) { p.kernels[0].spec.workspace_flags_offset = p.workspace_bytes; }},
      {"schedule: stages 0", [](Plan& p) { p.kernels[0].spec.schedule.stages = 0; }},
      {"product 1: k 0", [](Plan& p) { p.kernels[0].spec.sequence[0].k = 0; }},
      {"text of 5000 bytes", [](Plan& p) { p.note.assign(5000, 'x'); }},
  };
  for (const Case& c : cases) {
    Plan plan = SampleFusedPlan();
    c.change(plan);
    const auto back = Plan::Decode(plan.Encode());
    ASSERT_FALSE(back.ok()) << c.message;
    EXPECT_EQ(back.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(back.status().message().find(c.message), absl::string_view::npos) << back.status();
  }
}

// A record's note is shown as one line of an explanation.
TEST(PlanCodec, RefusesTextsThatAreNotOnePrintableLine) {
  for (const char* text : {"two\nlines", "a \x1b[31m terminal", "\xff", "tab\t"}) {
    Plan plan = SampleFusedPlan();
    plan.note = text;
    EXPECT_FALSE(Plan::Decode(plan.Encode()).ok()) << text;
    plan.note.clear();
    plan.runners_up = {{text, 1, "slow", Digest()}};
    EXPECT_FALSE(Plan::Decode(plan.Encode()).ok()) << text;
    plan.runners_up = {{"unfused", 1, text, Digest()}};
    EXPECT_FALSE(Plan::Decode(plan.Encode()).ok()) << text;
  }
}

// One plan has one spelling: a reader takes no other.
TEST(PlanCodec, RefusesAScaleThatIsNoF32) {
  Plan plan = SampleFusedPlan();
  plan.kernels[0].spec.sequence.products.back().epilogue.Set(ScaleBy(0.25f));
  std::string bytes = plan.Encode();
  ASSERT_TRUE(Plan::Decode(bytes).ok());
  const double scale = 0.25, other = 0.25 + 1e-12;  // the same f32
  const size_t at = bytes.rfind(std::string(reinterpret_cast<const char*>(&scale), sizeof(scale)));
  ASSERT_NE(at, std::string::npos);
  std::memcpy(&bytes[at], &other, sizeof(other));
  EXPECT_EQ(Plan::Decode(bytes).status().message(), "plan record: a field is written otherwise");
}

TEST(PlanDigest, CoversWhatIsExecutedAndNothingElse) {
  const Plan base = SampleFusedPlan();
  Plan same = base;
  same.note = "another note";
  same.runners_up.clear();
  same.kernels[0].prediction.total_us = 99;
  same.kernels[0].measured_us = 1;
  same.kernels[0].kernel_digest = Sha256("toolchain");
  EXPECT_TRUE(same.PlanDigest() == base.PlanDigest());
  Plan other = base;
  other.kernels[0].spec.schedule.stages = 2;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
  other = base;
  other.kernels[0].spec.operands[0].buffer = 3;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
  other = base;
  other.workspace_bytes += 1024;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
}

}  // namespace
}  // namespace sinter
