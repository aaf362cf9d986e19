// The self-check: right kernels are marked, wrong ones never run again.
#include "cache/record/record.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

PrepareOptions Verify() { return PrepareOptions{.verify = true}; }

KernelRecord RecordOf(FakeWorld& world, const std::string& entry) {
  for (const std::string& key : world.disk->Keys(RecordKind::kKernel)) {
    KernelRecord record =
        DecodeKernelRecord(world.disk->records[{RecordKind::kKernel, key}]).value();
    if (record.entry == entry) return record;
  }
  ADD_FAILURE() << "no kernel " << entry;
  return KernelRecord();
}

TEST(VerifyTest, ARightKernelIsMarkedAndNotCheckedAgain) {
  FakeWorld world;
  const auto plan = world.MakeEngine()->Prepare(world.chain, 16, Verify()).value();
  EXPECT_EQ(plan->plan().name(), "fused");
  EXPECT_THAT(plan->Explain(), HasSubstr(", verified"));
  const KernelRecord record = RecordOf(world, "grid");
  EXPECT_EQ(record.verification.device, "Fake H200, CUDA 13.0");
  EXPECT_NE(record.verification.seed, 0u);
  EXPECT_LT(record.verification.error, 1e-2);
  EXPECT_FALSE(RecordOf(world, "second").verification.verified());

  const size_t launches = world.launches.size();
  EXPECT_GT(launches, 0u);
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  EXPECT_EQ(world.launches.size(), launches);
}

// A bucket's mark says nothing of larger ones that share its code.
TEST(VerifyTest, APositionOfMoreRowsIsCheckedAgain) {
  FakeWorld world;
  const auto prepare = [&](int64_t m) {
    world.launches.clear();
    EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, m, Verify()).ok());
    return !world.launches.empty();
  };
  EXPECT_TRUE(prepare(32));
  EXPECT_EQ(RecordOf(world, "grid").verification.rows, 32);
  EXPECT_FALSE(prepare(32));
  EXPECT_FALSE(prepare(16)) << "of fewer rows";
  EXPECT_EQ(RecordOf(world, "grid").verification.rows, 32);
  EXPECT_TRUE(prepare(64));
  EXPECT_EQ(RecordOf(world, "grid").verification.rows, 64);
  EXPECT_FALSE(prepare(64));
  EXPECT_FALSE(prepare(32));
  EXPECT_EQ(world.compiles, 3) << "the fused kernel, and the two that it was compared with";
}

TEST(VerifyTest, AnotherDriverChecksAgainAndLeavesItsOwnMark) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  const int compiles = world.compiles;
  world.driver = "CUDA 13.1";
  world.launches.clear();
  Config insistent;  // a mark of any driver serves who demands one
  insistent.must_hit_verified = true;
  EXPECT_TRUE(world.MakeEngine(insistent)->Prepare(world.chain, 16, {.must_hit = true}).ok());
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(world.launches.empty());

  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  EXPECT_FALSE(world.launches.empty());
  EXPECT_EQ(RecordOf(world, "grid").verification.device, "Fake H200, CUDA 13.1");
  EXPECT_EQ(world.compiles, compiles);
  world.launches.clear();
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  EXPECT_TRUE(world.launches.empty());

  // A kernel that runs wrong is quarantined, whatever another driver's mark says.
  world.driver = "CUDA 13.2";
  KernelRecord planted = RecordOf(world, "grid");
  planted.cubin += "WRONG";
  for (const std::string& key : world.disk->Keys(RecordKind::kKernel)) {
    std::string& record = world.disk->records[{RecordKind::kKernel, key}];
    if (DecodeKernelRecord(record)->entry == "grid") record = EncodeKernelRecord(planted);
  }
  EXPECT_EQ(world.MakeEngine()->Prepare(world.chain, 16, Verify()).value()->plan().name(),
            "unfused");
  EXPECT_EQ(world.disk->quarantined.size(), 1u);
}

TEST(VerifyTest, WithoutBeingAskedNothingIsLaunched) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(world.launches.empty());
}

TEST(VerifyTest, APlantedWrongKernelIsQuarantinedWithItsSeedAndTheUnfusedPlanRuns) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const std::string key = world.disk->Keys(RecordKind::kKernel).front();
  KernelRecord planted = RecordOf(world, "grid");
  planted.cubin += "WRONG";
  world.disk->records[{RecordKind::kKernel, key}] = EncodeKernelRecord(planted);

  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, Verify()).value();
  EXPECT_EQ(plan->plan().name(), "unfused");
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
  ASSERT_EQ(world.disk->quarantined.count(key), 1u);
  EXPECT_THAT(world.disk->quarantined[key], HasSubstr("seed "));
  EXPECT_THAT(plan->plan().note, HasSubstr("quarantined"));
  // Compiled for the unfused plan: its two products, and nothing in place of the wrong kernel.
  EXPECT_EQ(world.compiled["grid"], 1);
  EXPECT_EQ(world.compiled["cluster"], 0);

  // Never chosen again: not by this process, not by another, checked or not.
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
  EXPECT_EQ(world.MakeEngine()->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
  EXPECT_EQ(world.compiled["grid"], 1);
}

TEST(VerifyTest, AKernelThatIsWrongFromTheCompilerIsCaughtToo) {
  FakeWorld world{.wrong = {"grid"}};
  const auto engine = world.MakeEngine({.verify_first_use = true});
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
}

TEST(VerifyTest, AWrongKernelIsNotHandedOutAgainThoughSomebodyStillHoldsIt) {
  FakeWorld world{.wrong = {"grid"}};
  const auto engine = world.MakeEngine();
  const auto held = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(held->plan().name(), "fused");
  EXPECT_EQ(engine->Prepare(world.chain, 16, Verify()).value()->plan().name(), "unfused");
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
}

TEST(VerifyTest, AWrongUnfusedPlanDoesNotCondemnARightKernel) {
  FakeWorld world{.wrong = {"second"}};
  const auto engine = world.MakeEngine();
  EXPECT_EQ(engine->Prepare(world.chain, 16, Verify()).value()->plan().name(), "fused");
  EXPECT_EQ(engine->Stats().wrong_kernels, 0u);
  EXPECT_TRUE(RecordOf(world, "grid").verification.verified());
}

TEST(VerifyTest, TheUnfusedPlanIsCheckedAgainstTheReference) {
  FakeWorld world{.unfused_is_best = true};
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  EXPECT_TRUE(RecordOf(world, "first").verification.verified());
  EXPECT_TRUE(RecordOf(world, "second").verification.verified());

  FakeWorld bad{.unfused_is_best = true, .wrong = {"second"}};
  EXPECT_FALSE(bad.MakeEngine()->Prepare(bad.chain, 16, Verify()).ok());
  EXPECT_EQ(bad.disk->quarantined.size(), 2u);
}

TEST(VerifyTest, TheWorkspaceHeaderIsClearBeforeAKernelRuns) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, Verify()).ok());
  EXPECT_EQ(world.memsets, 2);  // the fused plan's, the unfused plan's
}

TEST(VerifyTest, AChainWithoutMIsCheckedAtItsRows) {
  FakeWorld world{.chain = testing::TestChain(24)};
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 1, Verify()).ok());
  EXPECT_EQ(world.launches.front().m, 24);
}

}  // namespace
}  // namespace sinter
