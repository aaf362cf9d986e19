#include "tests/support/damage.h"
#include "tests/support/test.h"
#include "tests/unit/plan/sample_plan.h"

namespace sinter {
namespace {

// Decisions of both families, packed and not.
Decisions Sample() {
  Decisions decisions = DecisionsOf(SampleUnfusedPlan());
  decisions.absorbed = {true, false};
  for (size_t i = 0; i < decisions.kernels.size(); ++i) {
    decisions.kernels[i].ops = {{7}, false, static_cast<int>(i)};
  }
  decisions.kernels[0].measured_us = 9.5;
  KernelDecision stitched{.ops = {{3, 5, 9}, true, 0}};
  stitched.stitch.owner = 5;
  stitched.stitch.unit_threads = 32;
  stitched.prediction.total_us = 3.25;
  stitched.prediction.bound = "hbm";
  decisions.kernels.push_back(stitched);
  stitched.parts = {{{0}, stitched.stitch}, {{1, 2}, stitched.stitch}};
  decisions.kernels.push_back(stitched);
  return decisions;
}

TEST(DecisionsBytes, KeepEveryField) {
  const Decisions decisions = Sample();
  const std::string bytes = EncodeDecisions(decisions);
  const Decisions back = Got(DecodeDecisions(bytes));
  EXPECT_EQ(EncodeDecisions(back), bytes);
  EXPECT_EQ(back.bucket, decisions.bucket);
  EXPECT_TRUE(back.absorbed == decisions.absorbed);
  ASSERT_EQ(back.kernels.size(), decisions.kernels.size());
  for (size_t i = 0; i < back.kernels.size(); ++i) {
    const KernelDecision &a = back.kernels[i], &b = decisions.kernels[i];
    EXPECT_TRUE(a.ops == b.ops) << i;
    EXPECT_EQ(a.products, b.products) << i;
    EXPECT_TRUE(a.schedule == b.schedule) << i;
    EXPECT_TRUE(a.stitch == b.stitch && a.parts == b.parts) << i;
    EXPECT_EQ(a.prediction.total_us, b.prediction.total_us) << i;
    EXPECT_EQ(a.prediction.bound, b.prediction.bound) << i;
    EXPECT_EQ(a.measured_us, b.measured_us) << i;
  }
  EXPECT_EQ(back.runners_up.size(), decisions.runners_up.size());
}

TEST(DecisionsBytes, DamageIsRefusedOrOtherDecisions) {
  const std::string bytes = EncodeDecisions(Sample());
  const auto read = [](const std::string& of) {
    absl::StatusOr<Decisions> decisions = DecodeDecisions(of);
    EXPECT_TRUE(decisions.ok() || absl::IsDataLoss(decisions.status())) << decisions.status();
    return decisions;
  };
  ExpectTruncationsRefused(bytes, DecodeDecisions);
  EXPECT_FALSE(read(bytes + '\0').ok());
  ExpectFlipsRefusedOrKept(bytes, read, EncodeDecisions);
}

TEST(DecisionsBytes, WhatDoesNotAddUpIsRefusedByName) {
  const auto why = [](void (*change)(Decisions&)) {
    Decisions decisions = Sample();
    change(decisions);
    return std::string(DecodeDecisions(EncodeDecisions(decisions)).status().message());
  };
  EXPECT_EQ(why([](Decisions& d) { d.kernels.clear(); }), "plan record: 0 kernels");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].products = 3; }),
            "plan record: a kernel of 3 products");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].ops.turned = true; }),
            "plan record: flags of a product");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].ops.values.clear(); }),
            "plan record: a kernel of 0 values");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].ops.first = 9000; }), "plan record: product 9000");
  EXPECT_EQ(why([](Decisions& d) { d.kernels.back().ops.first = 1; }),
            "plan record: a first product of a stitched kernel");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].prediction.total_us = -1; }),
            "plan record: a figure is negative or not finite");
  EXPECT_EQ(why([](Decisions& d) { d.kernels[0].measured_us = std::nan(""); }),
            "plan record: a figure is negative or not finite");
  EXPECT_EQ(why([](Decisions& d) { d.note = "two\nlines"; }),
            "plan record: a text that is not one printable line");
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
  ProductIn(&other.kernels[0].spec).schedule.stages = 2;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
  other = base;
  ProductIn(&other.kernels[0].spec).operands[0].buffer = 3;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
  other = base;
  ProductIn(&other.kernels[0].spec).sequence.m *= 2;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
  other = base;
  other.workspace_bytes += 1024;
  EXPECT_TRUE(other.PlanDigest() != base.PlanDigest());
}

}  // namespace
}  // namespace sinter
