// Search: what a prepare would choose, without building it, and that it is searched for once.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using Choice = PrepareOptions::Choice;

PrepareOptions Of(Choice choice) { return PrepareOptions{.choice = choice}; }

TEST(SearchTest, TellsTheChoiceAndBuildsNothing) {
  FakeWorld world{.has_compiler = false, .has_gpu = false};
  const auto engine = world.MakeEngine();
  const SearchedPlan found = engine->Search(world.chain, 9, {}).value();
  EXPECT_EQ(found.plan.name(), "fused");
  EXPECT_EQ(found.plan.bucket, 16);
  EXPECT_EQ(found.plan.kernels.size(), 1u);
  EXPECT_EQ(found.plan.PredictedUs(), 10);
  EXPECT_EQ(found.unfused_us, 20);
  EXPECT_FALSE(found.measured);
  EXPECT_EQ(world.generated, 0);
  EXPECT_EQ(world.compiles, 0);
  EXPECT_FALSE(world.opened);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 0);
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_EQ(engine->Stats().prepares, 0u);
}

TEST(SearchTest, APrepareDoesNotSearchAgainAndRunsWhatWasTold) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const SearchedPlan found = engine->Search(world.chain, 16, {}).value();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(plan->plan().PlanDigest(), found.plan.PlanDigest());
  EXPECT_EQ(plan->plan().workspace_bytes, found.plan.workspace_bytes);
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_EQ(world.plans, 1);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 1);
}

TEST(SearchTest, IsALookUpOfWhatWasSearchedForOrIsInTheCache) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Search(world.chain, 16, {}).ok());
  ASSERT_TRUE(engine->Search(world.chain, 16, {}).ok());
  EXPECT_EQ(world.plans, 1);
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  FakeWorld warm{.disk = world.disk};
  const auto another = warm.MakeEngine();
  const SearchedPlan found = another->Search(warm.chain, 16, {}).value();
  EXPECT_EQ(found.plan.PredictedUs(), 10);
  EXPECT_EQ(found.unfused_us, 20);
  EXPECT_EQ(warm.plans, 0);
  EXPECT_EQ(another->Stats().plan_hits, 1u);
  EXPECT_EQ(another->Search(warm.chain, 16, Of(Choice::kUnfused))->plan.name(), "unfused");
}

TEST(SearchTest, KeepsTheLastOnesThatWereNotPrepared) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Search(world.chain, 1, {}).ok());
  std::vector<Chain> others;
  for (int i = 0; i < 128; ++i) {
    others.push_back(ReadChain("x: f32[M,$0]; out exp(x)", 8 + i));
    ASSERT_TRUE(engine->Search(others.back(), 1, {}).ok());
  }
  EXPECT_EQ(world.plans, 129);
  ASSERT_TRUE(engine->Search(others.front(), 1, {}).ok());
  EXPECT_EQ(world.plans, 129);
  ASSERT_TRUE(engine->Search(world.chain, 1, {}).ok());  // the oldest went
  EXPECT_EQ(world.plans, 130);
}

TEST(SearchTest, ChoicesAreOfOneSearch) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const SearchedPlan unfused = engine->Search(world.chain, 16, Of(Choice::kUnfused)).value();
  EXPECT_EQ(unfused.plan.name(), "unfused");
  EXPECT_EQ(unfused.plan.PredictedUs(), 20);
  EXPECT_EQ(engine->Search(world.chain, 16, Of(Choice::kFused))->plan.name(), "fused");
  EXPECT_EQ(world.plans, 1);
}

TEST(SearchTest, TakesTheMeasuredChoiceOfATuningSet) {
  FakeWorld tuner{.times = {{"grid", 11}, {"cluster", 8}, {"first", 10}, {"second", 10}}};
  auto set = std::make_shared<TuningSet>();
  set->Add(*tuner.MakeEngine()->Tune(tuner.chain, 16, {})->entry);
  FakeWorld world{.tuning = set};
  const SearchedPlan found = world.MakeEngine()->Search(world.chain, 16, {}).value();
  EXPECT_TRUE(found.measured);
  EXPECT_EQ(NameOf(ProductOf(found.plan.kernels[0].spec).schedule.dataflow), "cluster-exchange");
}

TEST(SearchTest, TakesTheMeasuredChoiceThatIsKept) {
  FakeWorld world{.times = {{"grid", 11}, {"cluster", 8}, {"first", 10}, {"second", 10}}};
  const auto engine = world.MakeEngine();
  PrepareOptions options;
  options.measuring.mode = Measuring::Mode::kFirst;
  EXPECT_FALSE(engine->Search(world.chain, 16, options)->measured);  // it measures nothing
  EXPECT_EQ(world.timings, 0);
  ASSERT_TRUE(engine->Prepare(world.chain, 16, options).ok());
  const SearchedPlan found = engine->Search(world.chain, 16, options).value();
  EXPECT_TRUE(found.measured);
  EXPECT_EQ(NameOf(ProductOf(found.plan.kernels[0].spec).schedule.dataflow), "cluster-exchange");
}

TEST(SearchTest, MustHitAndNoBuildSearchForNothing) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  PrepareOptions options{.must_hit = true};
  const absl::Status missed = engine->Search(world.chain, 16, options).status();
  EXPECT_TRUE(IsCacheMiss(missed)) << missed;
  EXPECT_TRUE(Says(missed, "sinter warm"));
  options.no_build = true;
  EXPECT_TRUE(absl::IsNotFound(engine->Search(world.chain, 16, options).status()));
  EXPECT_EQ(world.plans, 0);
}

TEST(SearchTest, AFailureIsSharedAndForgotten) {
  FakeWorld world{.plan_failures = 1};
  const auto engine = world.MakeEngine();
  EXPECT_FALSE(engine->Search(world.chain, 16, {}).ok());
  EXPECT_TRUE(engine->Search(world.chain, 16, {}).ok());
}

TEST(SearchTest, CancelAndDeadlineEndIt) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const std::atomic<bool> cancelled{true};
  EXPECT_TRUE(absl::IsCancelled(engine->Search(world.chain, 16, {.cancel = &cancelled}).status()));
  EXPECT_EQ(world.plans, 0);
}

TEST(SearchTest, ThreadsSearchOnce) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  OnThreads(8, [&](int) { EXPECT_TRUE(engine->Search(world.chain, 16, {}).ok()); });
  EXPECT_EQ(world.plans, 1);
}

}  // namespace
}  // namespace sinter
