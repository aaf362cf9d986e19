// What a slot measures: over a planner, a compiler, a disk and a GPU that are fakes.
#include "src/engine/measured_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using testing::FakeWorld;
using ::testing::HasSubstr;

class MeasuredChoiceTest : public ::testing::Test {
 protected:
  MeasuredChoiceTest() {
    config.slot_measure = true;
    world.times = {{"grid", 11}, {"cluster", 8}, {"first", 5}, {"second", 7}};
  }
  static absl::StatusOr<std::shared_ptr<const PreparedPlan>> Prepare(Engine& engine,
                                                                     const Chain& chain,
                                                                     bool measure,
                                                                     bool batch_invariant = false) {
    PrepareOptions options;
    options.background = options.measure = measure;
    options.batch_invariant = batch_invariant;
    return engine.Prepare(chain, 16, options);
  }
  std::string DataflowOf(Engine& engine, bool measure) {
    const auto plan = Prepare(engine, world.chain, measure);
    if (!plan.ok()) return std::string(plan.status().message());
    const Plan& chosen = (*plan)->plan();
    return std::string(chosen.fused ? NameOf(chosen.kernels[0].spec.schedule.dataflow) : "plain");
  }

  FakeWorld world;
  Config config;
};

TEST_F(MeasuredChoiceTest, TheFastestIsKeptAndTakenFromThenOn) {
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowOf(*engine, false), "grid-exchange");
  const auto before = Prepare(*engine, world.chain, false);
  EXPECT_EQ(DataflowOf(*engine, true), "cluster-exchange");
  EXPECT_EQ(DataflowOf(*engine, false), "cluster-exchange");
  EXPECT_EQ((*before)->plan().kernels[0].spec.schedule.dataflow, Dataflow::kGridExchange);
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
  EXPECT_EQ(DataflowOf(*world.MakeEngine(config), true), "plain");
}

TEST_F(MeasuredChoiceTest, AnotherProcessTakesItWithoutMeasuring) {
  ASSERT_EQ(DataflowOf(*world.MakeEngine(config), true), "cluster-exchange");
  const int measured = world.backgrounds;
  const auto other = world.MakeEngine(config);
  EXPECT_EQ(DataflowOf(*other, false), "cluster-exchange");
  EXPECT_EQ(DataflowOf(*other, true), "cluster-exchange");
  EXPECT_EQ(world.backgrounds, measured);
  EXPECT_EQ(other->Stats().slot_measurements, 0u);
  EXPECT_EQ(other->Stats().kernels_compiled, 0u);
  Config must_hit = config;
  must_hit.must_hit = true;
  EXPECT_EQ(DataflowOf(*world.MakeEngine(must_hit), false), "cluster-exchange");
  EXPECT_EQ(DataflowOf(*world.MakeEngine(), false), "grid-exchange");  // which did not ask
}

TEST_F(MeasuredChoiceTest, OneProcessMeasuresWhileAnotherWaits) {
  std::atomic<bool> waits{false}, paused{false};
  world.on_pause = [&] {
    paused = true;
    while (!waits) std::this_thread::yield();
  };
  const auto first = world.MakeEngine(config), second = world.MakeEngine(config);
  std::string of_first, of_second;
  std::thread measuring([&] { of_first = DataflowOf(*first, true); });
  while (!paused) std::this_thread::yield();
  std::thread waiting([&] { of_second = DataflowOf(*second, true); });
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
  ASSERT_EQ(DataflowOf(*engine, true), "cluster-exchange");
  int plans = 0;
  for (const std::string& key : world.disk->Keys(RecordKind::kPlan)) {
    const std::string record = world.disk->records[{RecordKind::kPlan, key}];
    EXPECT_TRUE(engine->CheckStored(RecordKind::kPlan, key, record).ok());
    ++plans;
  }
  EXPECT_EQ(plans, 2);  // as predicted, and as measured
}

TEST_F(MeasuredChoiceTest, WhatPredictionChoseIsKeptTooWhereItStands) {
  world.times["cluster"] = 10.9;  // less than 2 % faster
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowOf(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 1u);
  EXPECT_EQ(engine->Stats().slot_measured_wins, 0u);
  const int timings = world.timings;
  EXPECT_EQ(DataflowOf(*world.MakeEngine(config), true), "grid-exchange");
  EXPECT_EQ(world.timings, timings);
}

TEST_F(MeasuredChoiceTest, APlanThatWinsInThreeRoundsOfFiveDoesNotWin) {
  // Each time of a plan is 34 replays, of three plans once and in five rounds.
  world.on_pause = [&] { world.times["cluster"] = world.timings < 4 * 3 * 34 ? 8 : 11.5; };
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowOf(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 1u);
  EXPECT_EQ(world.timings, 6 * 3 * 34);
}

TEST_F(MeasuredChoiceTest, APlanMayLoseOneRound) {
  world.on_pause = [&] { world.times["cluster"] = world.timings < 5 * 3 * 34 ? 8 : 11.5; };
  EXPECT_EQ(DataflowOf(*world.MakeEngine(config), true), "cluster-exchange");
}

TEST_F(MeasuredChoiceTest, TakesAShareOfTheTime) {
  ASSERT_EQ(DataflowOf(*world.MakeEngine(config), true), "cluster-exchange");
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
  EXPECT_EQ(DataflowOf(*engine, false), "grid-exchange");
  EXPECT_EQ(engine->Stats().slot_measurements, 0u);
  EXPECT_EQ(engine->Stats().slot_measurements_given_up, 1u);
  EXPECT_EQ(world.background_bytes, 0u);
}

TEST_F(MeasuredChoiceTest, ACancelLeavesNothing) {
  std::atomic<bool> cancel{false};
  world.on_pause = [&] { cancel = world.timings > 200; };
  const auto engine = world.MakeEngine(config);
  PrepareOptions options;
  options.measure = true;
  options.cancel = &cancel;
  EXPECT_TRUE(absl::IsCancelled(engine->Prepare(world.chain, 16, options).status()));
  EXPECT_EQ(DataflowOf(*engine, false), "grid-exchange");
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
  ASSERT_EQ(DataflowOf(*world.MakeEngine(config), true), "cluster-exchange");
  ASSERT_GT(pauses_of_checks.size(), 100u);
  for (size_t i = 0; i < pauses_of_checks.size(); i += pauses_of_checks.size() / 12) {
    FakeWorld other;
    other.times = world.times;
    std::atomic<bool> cancel{false};
    pauses = 0;
    other.on_pause = [&] { cancel = ++pauses >= pauses_of_checks[i]; };
    const auto engine = other.MakeEngine(config);
    PrepareOptions options;
    options.measure = true;
    options.cancel = &cancel;
    EXPECT_TRUE(absl::IsCancelled(engine->Prepare(other.chain, 16, options).status()));
    EXPECT_EQ(engine->Stats().wrong_kernels, 0u) << "cancelled in pause " << pauses_of_checks[i];
    EXPECT_TRUE(other.disk->quarantined.empty());
  }
}

TEST_F(MeasuredChoiceTest, AWrongPlanDoesNotWin) {
  world.wrong = {"cluster"};
  const auto engine = world.MakeEngine(config);
  EXPECT_EQ(DataflowOf(*engine, true), "grid-exchange");
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
}

TEST_F(MeasuredChoiceTest, ALongRunIsNotMeasured) {
  world.unfused_is_best = true;
  world.unfused_us = 121;
  const auto engine = world.MakeEngine(config);
  EXPECT_THAT(DataflowOf(*engine, true), HasSubstr("a run is predicted to take 121 us, must be"));
  EXPECT_EQ(world.backgrounds, 0);
  EXPECT_EQ(engine->Stats().slot_measurements_given_up, 1u);
}

TEST_F(MeasuredChoiceTest, BatchInvariantPlansAreMeasuredApart) {
  const auto engine = world.MakeEngine(config);
  ASSERT_EQ(DataflowOf(*engine, true), "cluster-exchange");
  ASSERT_TRUE(Prepare(*engine, world.chain, true, true).ok());
  EXPECT_EQ(engine->Stats().slot_measurements, 2u);
}

TEST_F(MeasuredChoiceTest, ATuningSetDecidesAlone) {
  ASSERT_EQ(DataflowOf(*world.MakeEngine(config), true), "cluster-exchange");
  world.tuning = std::make_shared<TuningSet>();
  const auto engine = world.MakeEngine(config);
  EXPECT_FALSE(engine->Measures({}, false));
  EXPECT_EQ(DataflowOf(*engine, false), "grid-exchange");
}

TEST_F(MeasuredChoiceTest, MustHitAndAMissingGpuMeasureNothing) {
  EXPECT_TRUE(world.MakeEngine(config)->Measures({}, true));
  PrepareOptions forced;
  forced.choice = PrepareOptions::Choice::kFused;
  EXPECT_FALSE(world.MakeEngine(config)->Measures(forced, false));
  config.must_hit = true;
  EXPECT_FALSE(world.MakeEngine(config)->Measures({}, true));
  config.must_hit = false;
  world.has_gpu = false;
  EXPECT_FALSE(world.MakeEngine(config)->Measures({}, true));
  EXPECT_TRUE(world.MakeEngine(config)->Measures({}, false));
}

TEST_F(MeasuredChoiceTest, ItIsAnEvent) {
  int tunings = 0;  // outlives the engine, which tells events as it ends
  const auto engine = world.MakeEngine(config);
  ASSERT_TRUE(engine
                  ->TellEvents([&](const EngineEvent& event) {
                    tunings += event.kind == EventKind::kTune ? 1 : 0;
                  })
                  .ok());
  ASSERT_TRUE(Prepare(*engine, world.chain, true).ok());
  EXPECT_EQ(tunings, 1);
}

}  // namespace
}  // namespace sinter
