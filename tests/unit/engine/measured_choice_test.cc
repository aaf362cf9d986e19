// What a slot measures: over a planner, a compiler, a disk and a GPU that are fakes.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

class MeasuredChoiceTest : public ::testing::Test {
 protected:
  MeasuredChoiceTest() {
    world.times = {{"grid", 11}, {"cluster", 8}, {"first", 5}, {"second", 7}};
  }
  static absl::StatusOr<std::shared_ptr<const PreparedPlan>> Prepare(Engine& engine,
                                                                     const Chain& chain,
                                                                     bool measure,
                                                                     bool batch_invariant = false) {
    PrepareOptions options = measure ? WhileServing() : Kept();
    options.batch_invariant = batch_invariant;
    return engine.Prepare(chain, 16, options);
  }
  static PrepareOptions Kept() { return MeasuredBy(Measuring::Mode::kKept); }
  static PrepareOptions WhileServing() {
    PrepareOptions options = MeasuredBy(Measuring::Mode::kWhileServing);
    options.background = true;
    return options;
  }
  std::string Chosen(Engine& engine, const PrepareOptions& options) {
    const auto plan = engine.Prepare(world.chain, 16, options);
    return plan.ok() ? DataflowOf(**plan) : plan.status().ToString();
  }
  std::string DataflowBy(Engine& engine, bool measure) {
    return Chosen(engine, measure ? WhileServing() : Kept());
  }

  FakeWorld world;
  Config config;
};

TEST_F(MeasuredChoiceTest, TheFastestIsKeptAndTakenFromThenOn) {
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowBy(*engine, false), "grid-exchange");
  const auto before = Prepare(*engine, world.chain, false);
  EXPECT_EQ(DataflowBy(*engine, true), "cluster-exchange");
  EXPECT_EQ(DataflowBy(*engine, false), "cluster-exchange");
  EXPECT_EQ(DataflowOf(**before), "grid-exchange");
  const auto after = Prepare(*engine, world.chain, false);
  EXPECT_NE((*after)->ChosenDigest(), (*before)->ChosenDigest());
  EXPECT_THAT((*after)->Explain(), HasSubstr("tuning: measured 8.00 us on Fake H200, the "
                                             "predicted choice 11.00 us then"));
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.slot_measurements, 1u);
  EXPECT_EQ(stats.slot_measured_wins, 1u);
  EXPECT_EQ(stats.slot_measurements_given_up, 0u);
  EXPECT_EQ(stats.slots_measuring, 0u);
}

TEST_F(MeasuredChoiceTest, ThePlainPlanMayWin) {
  world.times["second"] = 1;
  EXPECT_EQ(DataflowBy(*world.MakeEngine(config), true), "plain");
}

TEST_F(MeasuredChoiceTest, AnotherProcessTakesItWithoutMeasuring) {
  ASSERT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
  const int measured = world.backgrounds;
  const auto other = world.MakeEngine(config);
  EXPECT_EQ(DataflowBy(*other, false), "cluster-exchange");
  EXPECT_EQ(DataflowBy(*other, true), "cluster-exchange");
  EXPECT_EQ(world.backgrounds, measured);
  EXPECT_EQ(other->Stats().slot_measurements, 0u);
  EXPECT_EQ(other->Stats().kernels_compiled, 0u);
  Config must_hit = config;
  must_hit.must_hit = true;
  EXPECT_EQ(DataflowBy(*world.MakeEngine(must_hit), false), "cluster-exchange");
  const auto unasked = Got(world.MakeEngine()->Prepare(world.chain, 16, {}));
  EXPECT_EQ(DataflowOf(*unasked), "grid-exchange");
}

TEST_F(MeasuredChoiceTest, OneProcessMeasuresWhileAnotherWaits) {
  std::atomic<bool> waits{false}, paused{false};
  world.on_pause = [&] {
    paused = true;
    while (!waits) std::this_thread::yield();
  };
  const auto first = world.MakeEngine(config), second = world.MakeEngine(config);
  std::string of_first, of_second;
  std::thread measuring([&] { of_first = DataflowBy(*first, true); });
  while (!paused) std::this_thread::yield();
  std::thread waiting([&] { of_second = DataflowBy(*second, true); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it comes to the lock
  waits = true;
  measuring.join();
  waiting.join();
  EXPECT_EQ(of_first, "cluster-exchange");
  EXPECT_EQ(of_second, "cluster-exchange");
  EXPECT_EQ(world.backgrounds, 1);
}

TEST_F(MeasuredChoiceTest, ItsRecordsAreSoundForExportsAndPacks) {
  const auto engine = world.MakeEngine(config);
  ASSERT_EQ(DataflowBy(*engine, true), "cluster-exchange");
  int plans = 0;
  for (const std::string& key : world.disk->Keys(RecordKind::kPlan)) {
    const std::string record = world.disk->records[{RecordKind::kPlan, key}];
    EXPECT_TRUE(engine->CheckStored(RecordKind::kPlan, key, record).ok());
    ++plans;
  }
  EXPECT_EQ(plans, 1);
}

TEST_F(MeasuredChoiceTest, WhatPredictionChoseIsKeptTooWhereItStands) {
  world.times["cluster"] = 10.9;  // less than 2 % faster
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowBy(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 1u);
  EXPECT_EQ(engine->Stats().slot_measured_wins, 0u);
  const int timings = world.timings;
  EXPECT_EQ(DataflowBy(*world.MakeEngine(config), true), "grid-exchange");
  EXPECT_EQ(world.timings, timings);
}

TEST_F(MeasuredChoiceTest, APlanThatWinsInThreeRoundsOfFiveDoesNotWin) {
  // Each time of a plan is 34 replays: of three plans once, and in five rounds at three numbers of
  // rows.
  world.on_pause = [&] { world.times["cluster"] = world.timings < 10 * 3 * 34 ? 8 : 11.5; };
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowBy(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 1u);
  EXPECT_EQ(world.timings, 16 * 3 * 34);
}

TEST_F(MeasuredChoiceTest, APlanMayLoseOneRound) {
  world.on_pause = [&] { world.times["cluster"] = world.timings < 13 * 3 * 34 ? 8 : 11.5; };
  EXPECT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
}

TEST_F(MeasuredChoiceTest, TakesAShareOfTheTime) {
  ASSERT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
  EXPECT_GT(world.background_us, 0);
  EXPECT_GE(world.paused_us, 48.9 * world.background_us);
  EXPECT_LT(world.background_us, 100e3);
  EXPECT_EQ(world.background_bytes, 0u);  // given back
}

TEST_F(MeasuredChoiceTest, WithoutMemoryThePredictedPlanStays) {
  world.most_background_bytes = 10 << 20;
  const auto engine = world.MakeEngine(config);
  const auto plan = Prepare(*engine, world.chain, true);
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  EXPECT_EQ(DataflowBy(*engine, false), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 0u);
  EXPECT_EQ(engine->Stats().slot_measurements_given_up, 1u);
  EXPECT_EQ(world.background_bytes, 0u);
}

TEST_F(MeasuredChoiceTest, ACancelLeavesNothing) {
  std::atomic<bool> cancel{false};
  world.on_pause = [&] { cancel = world.timings > 200; };
  const auto engine = world.MakeEngine(config);
  PrepareOptions options = WhileServing();
  options.cancel = &cancel;
  EXPECT_TRUE(absl::IsCancelled(engine->Prepare(world.chain, 16, options).status()));
  EXPECT_EQ(DataflowBy(*engine, false), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements_given_up, 1u);
  EXPECT_EQ(world.background_bytes, 0u);
}

// In whichever pause of a check it comes: of its copies, fills and runs.
TEST_F(MeasuredChoiceTest, ACancelCallsNoKernelWrong) {
  std::vector<int> pauses_of_checks;
  int pauses = 0, timings = -1;
  world.on_pause = [&] {
    ++pauses;
    if (timings == world.timings) pauses_of_checks.push_back(pauses);
    timings = world.timings;
  };
  ASSERT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
  ASSERT_GT(pauses_of_checks.size(), 100u);
  for (size_t i = 0; i < pauses_of_checks.size(); i += pauses_of_checks.size() / 12) {
    FakeWorld other{.times = world.times};
    std::atomic<bool> cancel{false};
    pauses = 0;
    other.on_pause = [&] { cancel = ++pauses >= pauses_of_checks[i]; };
    const auto engine = other.MakeEngine(config);
    PrepareOptions options = WhileServing();
    options.cancel = &cancel;
    EXPECT_TRUE(absl::IsCancelled(engine->Prepare(other.chain, 16, options).status()));
    EXPECT_EQ(engine->Stats().wrong_kernels, 0u) << "cancelled in pause " << pauses_of_checks[i];
    EXPECT_TRUE(other.disk->quarantined.empty());
  }
}

TEST_F(MeasuredChoiceTest, AWrongPlanDoesNotWin) {
  world.wrong = {"cluster"};
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowBy(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
}

TEST_F(MeasuredChoiceTest, ALongRunIsMeasuredInFewPieces) {
  world.times = {{"grid", 11e3}, {"cluster", 8e3}, {"first", 5e3}, {"second", 7e3}};
  EXPECT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
  EXPECT_GE(world.paused_us, 48.9 * world.background_us);
  // Each time of a plan is two replays to find the pieces, then two of three graphs.
  EXPECT_EQ(world.timings, 16 * 3 * 8);
}

TEST_F(MeasuredChoiceTest, BatchInvariantPlansAreMeasuredApart) {
  const auto engine = world.MakeEngine(config);
  ASSERT_EQ(DataflowBy(*engine, true), "cluster-exchange");
  ASSERT_TRUE(Prepare(*engine, world.chain, true, true).ok());
  EXPECT_EQ(engine->Stats().slot_measurements, 2u);
}

TEST_F(MeasuredChoiceTest, ATuningSetDecidesAlone) {
  ASSERT_EQ(DataflowBy(*world.MakeEngine(config), true), "cluster-exchange");
  world.tuning = std::make_shared<TuningSet>();
  const auto engine = world.MakeEngine(config);
  EXPECT_FALSE(engine->Measures(Kept(), false));
  EXPECT_EQ(DataflowBy(*engine, false), "grid-exchange");
}

TEST_F(MeasuredChoiceTest, MustHitAndAMissingGpuMeasureNothing) {
  EXPECT_TRUE(world.MakeEngine(config)->Measures(Kept(), true));
  EXPECT_FALSE(world.MakeEngine(config)->Measures({}, false));
  PrepareOptions forced = Kept();
  forced.choice = PrepareOptions::Choice::kFused;
  EXPECT_FALSE(world.MakeEngine(config)->Measures(forced, false));
  config.must_hit = true;
  EXPECT_FALSE(world.MakeEngine(config)->Measures(Kept(), true));
  config.must_hit = false;
  world.has_gpu = false;
  EXPECT_FALSE(world.MakeEngine(config)->Measures(Kept(), true));
  EXPECT_TRUE(world.MakeEngine(config)->Measures(Kept(), false));
}

TEST_F(MeasuredChoiceTest, ItIsAnEvent) {
  int tunings = 0;  // outlives the engine, which tells events as it ends
  const auto engine = world.MakeEngine(config);
  CountEvents(*engine, EventKind::kTune, &tunings);
  ASSERT_TRUE(Prepare(*engine, world.chain, true).ok());
  EXPECT_EQ(tunings, 1);
}

// What a prepare measures before it ends.
class MeasureFirstTest : public MeasuredChoiceTest {
 protected:
  static PrepareOptions First(bool required) {
    return MeasuredBy(Measuring::Mode::kFirst, required);
  }
};

TEST_F(MeasureFirstTest, ThePlanIsTheMeasuredChoice) {
  const auto engine = world.MakeEngine();
  const auto plan = Got(engine->Prepare(world.chain, 16, First(true)));
  EXPECT_EQ(DataflowOf(*plan), "cluster-exchange");
  EXPECT_THAT(plan->Explain(), HasSubstr("tuning: measured 8.00 us on Fake H200, the "
                                         "predicted choice 11.00 us then"));
  EXPECT_EQ(engine->Stats().measurements, 1u);
  EXPECT_EQ(engine->Stats().measured_wins, 1u);
  EXPECT_EQ(engine->Stats().slot_measurements, 0u);
  EXPECT_EQ(world.backgrounds, 0);  // at full speed
}

TEST_F(MeasureFirstTest, IsMeasuredOnceForAllWhoShareTheStore) {
  const auto engine = world.MakeEngine();
  ASSERT_EQ(Chosen(*engine, First(true)), "cluster-exchange");
  const int timings = world.timings;
  EXPECT_EQ(Chosen(*engine, First(true)), "cluster-exchange");
  EXPECT_EQ(Chosen(*world.MakeEngine(), First(true)), "cluster-exchange");
  EXPECT_EQ(Chosen(*world.MakeEngine(), Kept()), "cluster-exchange");
  EXPECT_EQ(world.timings, timings);
  EXPECT_EQ(Chosen(*world.MakeEngine(), {}), "grid-exchange");  // which did not ask
}

TEST_F(MeasureFirstTest, APlanThatIsAliveIsLookedUpNowhere) {
  int look_ups = 0;
  const auto engine = world.MakeEngine();
  CountEvents(*engine, EventKind::kLookUp, &look_ups);
  const auto held = Got(engine->Prepare(world.chain, 16, First(true)));
  EXPECT_GT(look_ups, 0);
  const int before = look_ups;
  EXPECT_EQ(Chosen(*engine, First(true)), "cluster-exchange");
  EXPECT_EQ(look_ups, before);
}

TEST_F(MeasureFirstTest, TellsItsProgress) {
  std::vector<std::string> stages;
  std::vector<double> fractions;
  PrepareOptions options = First(true);
  options.progress = [&](absl::string_view stage, double fraction) {
    stages.emplace_back(stage);
    fractions.push_back(fraction);
  };
  ASSERT_EQ(Chosen(*world.MakeEngine(), options), "cluster-exchange");
  ASSERT_GE(stages.size(), 3u);
  EXPECT_THAT(stages[1], HasSubstr("planned: 1 kernel, "));  // before anything is compiled
  EXPECT_EQ(stages[2], "measure: plan 1 of 3");
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()))
      << ::testing::PrintToString(fractions);
}

TEST_F(MeasureFirstTest, WhereNothingCanBeMeasuredAKeptChoiceServes) {
  ASSERT_EQ(Chosen(*world.MakeEngine(), First(true)), "cluster-exchange");
  world.has_gpu = false;
  EXPECT_EQ(Chosen(*world.MakeEngine(), First(true)), "cluster-exchange");
  PrepareOptions must_hit = First(true);
  must_hit.must_hit = true;
  EXPECT_EQ(Chosen(*world.MakeEngine(), must_hit), "cluster-exchange");
}

TEST_F(MeasureFirstTest, WithoutAGpuItIsRefusedIfRequired) {
  world.has_gpu = false;
  EXPECT_THAT(Chosen(*world.MakeEngine(), First(true)),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("prepare.measure is 11"),
                    HasSubstr("sinter warm --measure")));
  EXPECT_EQ(Chosen(*world.MakeEngine(), First(false)), "grid-exchange");
}

TEST_F(MeasureFirstTest, WhatMustHitIsNotMeasured) {
  ASSERT_EQ(Chosen(*world.MakeEngine(), {}), "grid-exchange");
  PrepareOptions required = First(true), may = First(false);
  required.must_hit = may.must_hit = true;
  const auto missed = world.MakeEngine()->Prepare(world.chain, 16, required);
  EXPECT_TRUE(IsCacheMiss(missed.status())) << missed.status();
  EXPECT_TRUE(Says(missed, "--measure 11"));
  EXPECT_EQ(Chosen(*world.MakeEngine(), may), "grid-exchange");
  EXPECT_EQ(world.timings, 0);
}

TEST_F(MeasureFirstTest, ABudgetThatEndsBeforeTheFirstTimeIsRefusedIfRequired) {
  PrepareOptions options = First(true);
  options.measuring.budget_us = 1;
  const auto engine = world.MakeEngine();
  EXPECT_THAT(Chosen(*engine, options),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("no plan was measured")));
  options.measuring.required = false;
  EXPECT_EQ(Chosen(*engine, options), "grid-exchange");
  EXPECT_EQ(engine->Stats().measurements_given_up, 2u);
  EXPECT_EQ(engine->Stats().wrong_kernels, 0u);
}

TEST_F(MeasureFirstTest, ACancelEndsIt) {
  std::atomic<bool> cancel{false};
  PrepareOptions options = First(false);
  options.cancel = &cancel;
  options.progress = [&](absl::string_view stage, double) {
    cancel = cancel || stage == "measure: plan 2 of 3";
  };
  EXPECT_THAT(Chosen(*world.MakeEngine(), options), HasSubstr("CANCELLED"));
}

TEST_F(MeasureFirstTest, AWrongPlanDoesNotWin) {
  world.wrong = {"cluster"};
  EXPECT_EQ(Chosen(*world.MakeEngine(), First(true)), "grid-exchange");
}

TEST_F(MeasureFirstTest, ATuningSetDecidesAlone) {
  world.tuning = std::make_shared<TuningSet>();
  EXPECT_EQ(Chosen(*world.MakeEngine(), First(false)), "grid-exchange");
  EXPECT_EQ(world.timings, 0);
}

TEST_F(MeasureFirstTest, ThreadsMeasureOneByOne) {
  std::atomic<int> inside{0}, most{0};
  PrepareOptions options = First(true), invariant = First(true);
  options.progress = invariant.progress = [&](absl::string_view stage, double) {
    if (stage == "measure: plan 1 of 3") most = std::max(most.load(), ++inside);
    if (stage == "measure: plan 3 of 3") --inside;
  };
  invariant.batch_invariant = true;
  const auto engine = world.MakeEngine();
  std::thread other([&] { EXPECT_TRUE(engine->Prepare(world.chain, 16, invariant).ok()); });
  EXPECT_TRUE(engine->Prepare(world.chain, 16, options).ok());
  other.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(engine->Stats().measurements, 2u);
}

TEST(RowsToTime, AreThoseOfTheBucket) {
  FakeWorld world;
  EXPECT_EQ(RowsToTime(world.chain, 1), (std::vector<int64_t>{1}));
  EXPECT_EQ(RowsToTime(world.chain, 8), (std::vector<int64_t>{8, 2, 5}));
  EXPECT_EQ(RowsToTime(world.chain, 16), (std::vector<int64_t>{16, 9, 12}));
  EXPECT_EQ(RowsToTime(world.chain, 320), (std::vector<int64_t>{320, 305, 312}));
  EXPECT_EQ(RowsToTime(world.chain, 8192), (std::vector<int64_t>{8192, 7937, 8064}));
}

}  // namespace
}  // namespace sinter
