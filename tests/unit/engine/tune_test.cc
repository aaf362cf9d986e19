#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::kK;
using testing::kL;
using testing::kN;

MeasuredChoice ChoiceOf(const TuningEntry& entry) {
  return *DecodePlanRecord(entry.record)->choice;
}

// The schedule of a kernel of the entry's plan, as the entry's lines tell it.
std::string ScheduleOf(const TuningEntry& entry, int kernel) {
  size_t at = 0;
  for (int i = 0; i <= kernel; ++i) at = entry.about.find("\nschedule ", at) + 10;
  return entry.about.substr(at, entry.about.find('\n', at) - at);
}

TEST(TuneTest, BuildsChecksAndTimesTheRankingAndReportsIt) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const std::string report = engine->Tune(world.chain, 16, {})->report;
  EXPECT_THAT(report, HasSubstr("tuning at m <= 16 on Fake H200"));
  EXPECT_THAT(report, HasSubstr("11.50"));
  EXPECT_THAT(report, HasSubstr("of 3 plans"));
  EXPECT_THAT(report, HasSubstr("the predicted choice stands"));
  EXPECT_EQ(world.compiles, 4);
  // Tuned plans are warm afterwards, and marked.
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 4);
}

TEST(TuneTest, WrongAndRefusedPlansAreListedWithoutATime) {
  FakeWorld world{.refused = {"cluster"}, .wrong = {"grid"}};
  const auto engine = world.MakeEngine();
  const std::string report = engine->Tune(world.chain, 16, {})->report;
  EXPECT_THAT(report, HasSubstr("wrong: "));
  EXPECT_THAT(report, HasSubstr("registers spill in cluster"));
  EXPECT_THAT(report, HasSubstr("of 1 plans"));
  EXPECT_THAT(report, HasSubstr("plan 3 is faster"));
  EXPECT_EQ(engine->Stats().wrong_kernels, 1u);
}

TEST(TuneTest, PlansThatAreNotResidentAreNotTimed) {
  FakeWorld world{.resident_clusters = 14};
  EXPECT_THAT(world.MakeEngine()->Tune(world.chain, 16, {})->report,
              HasSubstr("keeps 14 clusters of 8 resident"));
}

TEST(TuneTest, TopKLimitsTheRankingButNotTheUnfusedPlan) {
  FakeWorld world;
  const std::string report = world.MakeEngine()->Tune(world.chain, 16, {.top_k = 1})->report;
  EXPECT_THAT(report, HasSubstr("unfused"));
  EXPECT_THAT(report, HasSubstr("of 2 plans"));
  EXPECT_EQ(world.compiled["cluster"], 0);
}

TEST(TuneTest, EachKernelTakesTheFastestOfItsRanking) {
  FakeWorld world{.unfused_stages = {{2, 2}, {3, 3}, {4, 4}},
                  .times = {{"grid", 20},
                            {"cluster", 20},
                            {"first", 9},
                            {"second", 6},
                            {"first3", 4},
                            {"second3", 9},
                            {"first4", 5},
                            {"second4", 7}}};
  const TuneResult result = world.MakeEngine()->Tune(world.chain, 16, {}).value();
  ASSERT_NE(result.entry, nullptr);
  EXPECT_EQ(ChoiceOf(*result.entry).measured_us, 4 + 6);
  EXPECT_THAT(ScheduleOf(*result.entry, 0), HasSubstr("st3"));
  EXPECT_THAT(ScheduleOf(*result.entry, 1), HasSubstr("st2"));
  // Whatever is asked of the entry holds for it too.
  world.tuning = SetWith(*result.entry);
  const auto prepared = Got(world.MakeEngine()->Prepare(world.chain, 16, {}));
  EXPECT_EQ(ProductOf(prepared->plan().kernels[0].spec).schedule.stages, 3);
  EXPECT_EQ(ProductOf(prepared->plan().kernels[1].spec).schedule.stages, 2);
}

TEST(TuneTest, OnlyPlansThatSomethingIsBuiltOnAreChecked) {
  FakeWorld world{.times = {{"grid", 12}, {"cluster", 50}, {"first", 10}, {"second", 1}}};
  for (int stages = 3; stages <= 9; ++stages) {
    world.unfused_stages.push_back({stages, 2});
    world.times[absl::StrCat("first", stages)] = 10 + stages;
  }
  world.wrong = {"cluster"};  // far too slow for the short list
  const auto engine = world.MakeEngine();
  const TuneResult result = engine->Tune(world.chain, 16, {}).value();
  EXPECT_THAT(result.report, HasSubstr("not checked"));
  EXPECT_THAT(result.report, Not(HasSubstr("wrong: ")));
  EXPECT_EQ(engine->Stats().wrong_kernels, 0u);
  ASSERT_NE(result.entry, nullptr);
  EXPECT_EQ(ChoiceOf(*result.entry).measured_us, 10 + 1);
}

TEST(TuneTest, KernelsOfACutThatIsFarBehindAreNotTried) {
  FakeWorld world{.unfused_stages = {{2, 2}, {3, 3}},
                  .times = {{"grid", 10},
                            {"cluster", 20},
                            {"first", 9},
                            {"second", 3},
                            {"first3", 3},
                            {"second3", 9}}};
  const TuneResult result = world.MakeEngine()->Tune(world.chain, 16, {}).value();
  EXPECT_THAT(result.report, HasSubstr("of 4 plans"));
  EXPECT_EQ(ChoiceOf(*result.entry).measured_us, 10);
}

TEST(TuneTest, ASlabIsTakenByMeasurementAlone) {
  FakeWorld world;
  world.slab_us = 9;  // less than any other
  world.times = {{"slab", 5}};
  const auto engine = world.MakeEngine();
  EXPECT_EQ(DataflowOf(*Got(engine->Prepare(world.chain, 256, {}))), "grid-exchange");
  const TuneResult result = engine->Tune(world.chain, 256, {}).value();
  ASSERT_NE(result.entry, nullptr) << result.report;
  EXPECT_EQ(ChoiceOf(*result.entry).measured_us, 5);
  world.tuning = SetWith(*result.entry);
  EXPECT_EQ(DataflowOf(*Got(world.MakeEngine()->Prepare(world.chain, 256, {}))), "cluster-slab");
}

TEST(TuneTest, ADeadlineEndsIt) {
  FakeWorld world;
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      world.MakeEngine()->Tune(world.chain, 16, {.deadline_us = 1}).status()));
}

TEST(TuneTest, ADeadlineThatLeavesTheFirstPlanDecidesByIt) {
  FakeWorld world{.ms_per_timing = 2100};
  const TuneResult result =
      world.MakeEngine()->Tune(world.chain, 16, {.deadline_us = 2'000'000}).value();
  ASSERT_NE(result.entry, nullptr);
  EXPECT_EQ(world.timings, 1);
  EXPECT_THAT(result.report, HasSubstr("deadline"));
  EXPECT_THAT(result.report, HasSubstr("the predicted choice stands"));
}

TEST(TuneTest, FirstTimesDecideWhenTimingInTurnsFails) {
  FakeWorld world{.times = {{"grid", 12}, {"cluster", 3}, {"first", 10}, {"second", 10}}};
  world.most_timings = 5;  // three plans, and part of the first round
  const auto engine = world.MakeEngine();
  const TuneResult result = Got(engine->Tune(world.chain, 16, {}));
  ASSERT_NE(result.entry, nullptr);
  EXPECT_EQ(ChoiceOf(*result.entry).measured_us, 3);
  EXPECT_EQ(ChoiceOf(*result.entry).untuned_us, 12);
  EXPECT_THAT(world.log, ::testing::Contains(HasSubstr("first times: not timed, on order")));
}

TEST(TuneTest, TheFastestIsTakenOnlyBeyondTheMargin) {
  struct Row {
    double grid, cluster, margin;
    const char* plan;
  };
  const Row kRows[] = {
      {10, 9, 0.02, "cluster-exchange"},    {10, 9.9, 0.02, "grid-exchange"},
      {10, 9.9, 0.001, "cluster-exchange"}, {10, 9, 0.2, "grid-exchange"},
      {10, 10.5, 0.02, "grid-exchange"},    {10, 10, 0.0, "grid-exchange"},
  };
  for (const Row& row : kRows) {
    FakeWorld world{
        .times = {{"grid", row.grid}, {"cluster", row.cluster}, {"first", 10}, {"second", 10}}};
    const auto entry =
        world.MakeEngine()->Tune(world.chain, 16, {.switch_margin = row.margin})->entry;
    ASSERT_NE(entry, nullptr);
    const std::string schedule = ScheduleOf(*entry, 0);
    EXPECT_THAT(schedule, ::testing::StartsWith(row.plan)) << row.cluster;
    EXPECT_EQ(ChoiceOf(*entry).untuned_us, row.grid);
    EXPECT_EQ(ChoiceOf(*entry).measured_us, schedule[0] == 'g' ? row.grid : row.cluster);
  }
}

TEST(TuneTest, ChooseMeasuredPrefersTheFirstWithinTheMargin) {
  EXPECT_EQ(ChooseMeasured({}, 0.02), -1);
  EXPECT_EQ(ChooseMeasured({0, 0}, 0.02), -1);
  EXPECT_EQ(ChooseMeasured({0, 5, 4}, 0.5), 2);
  EXPECT_EQ(ChooseMeasured({5, 4.95, 0}, 0.02), 0);
  EXPECT_EQ(ChooseMeasured({5, 4.5, 4.4}, 0.02), 2);
}

TEST(TuneTest, TheEntrySaysWhatWasMeasuredWhereAndHowItWasChecked) {
  FakeWorld world;
  const auto entry = world.MakeEngine()->Tune(world.chain, 16, {})->entry;
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->key.chain, world.chain.CanonicalDigest());
  EXPECT_EQ(entry->key.bucket, 16);
  EXPECT_EQ(entry->key.flags, 0u);
  EXPECT_THAT(entry->about, HasSubstr("\nplan fused\n"));
  EXPECT_THAT(entry->about, HasSubstr("\npredicted_us 10\nmeasured_us 11.5\n"));
  const PlanRecord record = DecodePlanRecord(entry->record).value();
  EXPECT_EQ(record.choice->kernels.size(), 1u);
  EXPECT_EQ(record.choice->measured_us, 11.5);
  EXPECT_EQ(record.choice->device, "Fake H200");
  EXPECT_EQ(record.choice->driver, "CUDA 13.0");
  EXPECT_NE(record.choice->seed, 0u);
  EXPECT_LT(record.choice->error, 5e-3);
  EXPECT_EQ(record.toolchain_id, "");
  EXPECT_EQ(record.variants[0].decisions.kernels[0].schedule.dataflow, Dataflow::kGridExchange);
}

TEST(TuneTest, EqualMeasurementsGiveEqualSets) {
  TuningSet sets[2];
  for (TuningSet& set : sets) {
    FakeWorld world{.times = {{"grid", 9.5}, {"cluster", 7.25}}};
    const auto engine = world.MakeEngine();
    for (const int64_t m : {1, 16, 100}) set.Add(*engine->Tune(world.chain, m, {})->entry);
  }
  EXPECT_EQ(sets[0].ToText(), sets[1].ToText());
  EXPECT_EQ(sets[0].entries().size(), 3u);
}

TEST(TuneTest, AWrongWinnerIsNeverRecorded) {
  FakeWorld world{.wrong = {"cluster"},
                  .times = {{"grid", 12}, {"cluster", 3}, {"first", 10}, {"second", 10}}};
  const auto entry = world.MakeEngine()->Tune(world.chain, 16, {})->entry;
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(ChoiceOf(*entry).measured_us, 12);
}

TEST(TuneTest, WithoutAMeasuredPlanThereIsAReportAndNoEntry) {
  FakeWorld world{.wrong = {"grid", "cluster", "second"}};
  const TuneResult result = world.MakeEngine()->Tune(world.chain, 16, {}).value();
  EXPECT_EQ(result.entry, nullptr);
  EXPECT_THAT(result.report, HasSubstr("no plan could be measured"));
}

TEST(TuneTest, AnEntryThatCanStillBeUsedIsKeptUnmeasured) {
  FakeWorld world;
  const auto set = SetWith(*world.MakeEngine()->Tune(world.chain, 16, {})->entry);
  TuneOptions options{.keep = set};
  const int timings = world.timings;
  const TuneResult kept = world.MakeEngine()->Tune(world.chain, 16, options).value();
  EXPECT_EQ(world.timings, timings);
  EXPECT_THAT(kept.report, HasSubstr("kept: fused, measured 11.50 us on Fake H200"));
  EXPECT_EQ(kept.entry->record, set->entries().begin()->second.record);
  // Another bucket has none, and a changed kernel is measured again.
  EXPECT_THAT(world.MakeEngine()->Tune(world.chain, 32, options)->report, Not(HasSubstr("kept")));
  world.header = "int another;\n";
  EXPECT_THAT(world.MakeEngine()->Tune(world.chain, 16, options)->report, Not(HasSubstr("kept")));
}

// The contexts share no cache, so each tuning has to know by itself that its kernels are equal.
TEST(TuneTest, EqualKernelsAreTimedOnceAProcess) {
  FakeWorld world{.known_times = std::make_shared<KnownTimes>(),
                  .times = {{"grid", 11}, {"cluster", 8}, {"first", 5}, {"second", 7}}};
  const TuneResult first = world.MakeEngine()->Tune(world.chain, 16, {}).value();
  const int timings = world.timings;
  EXPECT_GT(timings, 3);
  world.disk = std::make_shared<testing::FakeDisk>();
  const TuneResult second = world.MakeEngine()->Tune(world.chain, 16, {}).value();
  EXPECT_EQ(world.timings, timings);
  EXPECT_EQ(second.report, first.report);
  // A measurement before a prepare takes the times of the tuning.
  const PrepareOptions options = MeasuredBy(Measuring::Mode::kFirst);
  const auto plan = world.MakeEngine()->Prepare(world.chain, 16, options).value();
  EXPECT_EQ(plan->plan().kernels[0].measured_us, 8);
  EXPECT_EQ(world.timings, timings);
}

TEST(TuneTest, WhatDiffersInAnythingThatIsTimedIsTimedAgain) {
  const auto times_again = [](const std::function<void(FakeWorld&, TuneOptions&)>& change) {
    FakeWorld world{.known_times = std::make_shared<KnownTimes>()};
    TuneOptions options;
    EXPECT_TRUE(world.MakeEngine()->Tune(world.chain, 16, options).ok());
    const int timings = world.timings;
    change(world, options);
    EXPECT_TRUE(world.MakeEngine()->Tune(world.chain, 16, options).ok());
    return world.timings - timings;
  };
  EXPECT_EQ(times_again([](FakeWorld&, TuneOptions&) {}), 0);
  EXPECT_GT(times_again([](FakeWorld& w, TuneOptions&) { w.toolchain = "nvrtc-13.1"; }), 0);
  EXPECT_GT(times_again([](FakeWorld& w, TuneOptions&) { w.header = "int other;\n"; }), 0);
  EXPECT_GT(times_again([](FakeWorld& w, TuneOptions&) { w.driver = "CUDA 13.1"; }), 0);
  EXPECT_GT(times_again([](FakeWorld&, TuneOptions& o) { o.protocol.replays = 5; }), 0);
  EXPECT_GT(times_again([](FakeWorld&, TuneOptions& o) { o.protocol.rounds = 3; }), 0);
  EXPECT_GT(times_again([](FakeWorld& w, TuneOptions&) { w.known_times = nullptr; }), 0);
}

TEST(TuneTest, SmallChainsAreTimedColdToo) {
  FakeWorld world{.compute = true};
  ASSERT_TRUE(world.MakeEngine()->Tune(world.chain, 16, {}).ok());
  const int64_t constants = (kK * kN + kN * kL) * 2;
  EXPECT_GT(world.calls * constants, int64_t{240} << 20);
  // Nothing of a chain that has too few bytes to matter is multiplied without end.
  EXPECT_EQ(RotationSets(1), 16384);
  EXPECT_EQ(RotationSets(int64_t{1} << 20), 241);
  EXPECT_EQ(RotationSets(int64_t{1} << 30), 1);
}

}  // namespace
}  // namespace sinter
