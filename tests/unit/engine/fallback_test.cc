// The plan that runs when the chosen plan cannot: refused by the compiler, not resident, no
// compiler, no GPU.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using PlanChoice = PrepareOptions::Choice;

int32_t NumberOf(ErrorCode code) { return static_cast<int32_t>(code); }

TEST(FallbackTest, ARefusedKernelGivesWayToTheNextPlanWithTheReason) {
  FakeWorld world{.refused = {"grid"}};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(ProductOf(plan->plan().kernels[0].spec).schedule.dataflow, Dataflow::kClusterExchange);
  EXPECT_NE(plan->ChosenDigest(), plan->plan().PlanDigest());
  EXPECT_THAT(plan->plan().note, HasSubstr("registers spill in grid"));
  EXPECT_THAT(plan->Explain(), HasSubstr("chosen by planning: " + plan->ChosenDigest().Hex()));
  EXPECT_THAT(world.log, Contains(HasSubstr("plan 'fused' does not run")));

  world.refused = {"grid", "cluster"};
  const auto unfused = world.MakeEngine();
  world.disk->records.clear();
  EXPECT_EQ(unfused->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
}

// The other kernel of the plan stays, and what was learnt is kept with the plan.
TEST(FallbackTest, ARefusedKernelIsReplacedAlone) {
  FakeWorld world{.unfused_is_best = true, .replaces = true, .refused = {"first"}};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(plan->plan().name(), "unfused");
  ASSERT_EQ(plan->plan().kernels.size(), 2u);
  EXPECT_NE(ProductOf(plan->plan().kernels[0].spec).schedule.stages, 2) << "another schedule";
  EXPECT_EQ(ProductOf(plan->plan().kernels[1].spec).schedule.stages, 2) << "as planned";
  EXPECT_NE(plan->ChosenDigest(), plan->plan().PlanDigest());
  EXPECT_THAT(plan->plan().note, HasSubstr("1 kernel replaced, the compiler refused the planned"));
  EXPECT_THAT(plan->plan().note, HasSubstr("registers spill in first"));
  EXPECT_EQ(world.compiled.at("second"), 1);

  const int compiles = world.compiles;
  const auto again_engine = world.MakeEngine();
  const auto again = again_engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(again_engine->Stats().searched, 0u);
  EXPECT_EQ(world.compiles, compiles) << "the refused kernel is not tried again";
  EXPECT_EQ(again->plan().PlanDigest(), plan->plan().PlanDigest());
  EXPECT_EQ(again->ChosenDigest(), plan->ChosenDigest());
  EXPECT_THAT(again->plan().note, HasSubstr("registers spill in first"));
}

// The pair has no schedule that compiles: its products get a kernel each.
TEST(FallbackTest, AKernelWithoutAnotherScheduleIsSplit) {
  FakeWorld world{.replaces = true, .refused = {"grid", "cluster", "tasks"}};
  const auto plan = world.MakeEngine()->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(plan->plan().name(), "fused");
  EXPECT_EQ(plan->plan().kernels.size(), 2u);
  EXPECT_THAT(plan->plan().note, HasSubstr("replaced"));
}

TEST(FallbackTest, ACompilerThatRefusesEveryKernelIsAskedForNoOthers) {
  FakeWorld world{.replaces = true, .refused = {"first", "second"}};
  EXPECT_FALSE(world.MakeEngine()->Prepare(world.chain, 16, {.choice = PlanChoice::kUnfused}).ok());
  EXPECT_EQ(world.compiled.at("first"), 1);
  EXPECT_EQ(world.compiled.at("second"), 1);
}

TEST(FallbackTest, SourcesAreMadeOnceAndCarried) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 1);
  EXPECT_EQ(world.generated, 4) << "one of each kernel of the three plans that the record keeps";
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.generated, 4) << "none for what is there";
}

TEST(FallbackTest, AskingForFusedDoesNotGiveUnfused) {
  FakeWorld world{.refused = {"grid", "cluster"}};
  const absl::Status status =
      world.MakeEngine()->Prepare(world.chain, 16, {.choice = PlanChoice::kFused}).status();
  EXPECT_EQ(StatusNumber(status), NumberOf(ErrorCode::kCompileFailed));
}

TEST(FallbackTest, FifteenAndFourteenClustersChooseTheSamePlanAndOnlyTheExecutedOneDiffers) {
  FakeWorld enough, few;
  enough.resident_clusters = 15;
  few.resident_clusters = 14;
  const auto full_engine = enough.MakeEngine();
  const auto small_engine = few.MakeEngine();
  const auto full = full_engine->Prepare(enough.chain, 16, {}).value();
  const auto small = small_engine->Prepare(few.chain, 16, {}).value();
  EXPECT_EQ(full->ChosenDigest(), small->ChosenDigest());
  EXPECT_EQ(full->plan().PlanDigest(), full->ChosenDigest());
  EXPECT_NE(small->plan().PlanDigest(), small->ChosenDigest());
  EXPECT_EQ(ProductOf(full->plan().kernels[0].spec).schedule.dataflow, Dataflow::kGridExchange);
  EXPECT_EQ(ProductOf(small->plan().kernels[0].spec).schedule.dataflow, Dataflow::kClusterExchange);
  EXPECT_EQ(full_engine->Stats().non_resident_fallbacks, 0u);
  EXPECT_EQ(small_engine->Stats().non_resident_fallbacks, 1u);
  EXPECT_THAT(small->plan().note, HasSubstr("keeps 14 clusters of 8 resident, the plan needs 15"));
  EXPECT_THAT(few.log, Contains(HasSubstr("14 clusters")));
}

TEST(FallbackTest, TheNonResidentFallbackIsWarmTheSecondTime) {
  FakeWorld world{.resident_clusters = 14};
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.plans, 2);
  const int compiles = world.compiles;
  const auto engine = world.MakeEngine();
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().searched, 0u);
  EXPECT_EQ(world.compiles, compiles);
}

TEST(FallbackTest, WithoutACompilerAHitServesAndAMissIsUnavailable) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  world.has_compiler = false;
  world.build_id = "";
  world.opened = false;
  const auto engine = world.MakeEngine();
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_FALSE(engine->Stats().nvrtc_loaded);
  EXPECT_TRUE(absl::IsUnavailable(engine->Prepare(world.chain, 64, {}).status()));
}

TEST(FallbackTest, WithoutACompilerALostKernelGivesWayToAPlanThatIsThere) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const std::string fused = world.disk->Keys(RecordKind::kKernel).front();
  PrepareOptions unfused{.choice = PlanChoice::kUnfused};
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, unfused).ok());
  world.disk->records.erase({RecordKind::kKernel, fused});
  world.has_compiler = false;
  const auto plan = world.MakeEngine()->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(plan->plan().name(), "unfused");
  EXPECT_THAT(plan->plan().note, HasSubstr("libnvrtc"));
}

TEST(FallbackTest, WithoutAGpuPreparingWorksAndLaunchingSaysWhyNot) {
  FakeWorld world{.has_gpu = false};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(engine->Stats().kernels_compiled, 1u);
  EXPECT_EQ(engine->Stats().kernels_loaded, 0u);
  const absl::Status tuned = engine->Tune(world.chain, 16, {}).status();
  for (const absl::Status& status :
       {plan->Bind(testing::FarApart(4), 0).status(), plan->InitWorkspace(0, 0, nullptr),
        plan->Launch(PlanBinding(), nullptr, 1, false), tuned}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(status.message(), "no GPU: on order");
  }
  EXPECT_TRUE(engine->RefuseDuringCapture(nullptr).ok());
  EXPECT_THAT(plan->Explain(), HasSubstr("no GPU: on order"));
}

TEST(FallbackTest, KernelsMadeWithoutAGpuServeOneThatHasIt) {
  FakeWorld builder{.has_gpu = false};
  ASSERT_TRUE(builder.MakeEngine()->Prepare(builder.chain, 16, {}).ok());
  FakeWorld server{.disk = builder.disk};
  ASSERT_TRUE(server.MakeEngine()->Prepare(server.chain, 16, {}).ok());
  EXPECT_EQ(server.compiles, 0);
  EXPECT_EQ(server.loads, 1);
}

}  // namespace
}  // namespace sinter
