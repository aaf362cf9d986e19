// What a tuning set does to preparing: what is taken, what is refused, what ranks agree on.
#include "tests/support/child.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// A world whose cluster plan is measured as the fastest, though the grid plan is predicted so.
void MakeClusterFastest(FakeWorld& world) {
  world.times = {{"grid", 11}, {"cluster", 8}, {"first", 10}, {"second", 10}};
}

std::shared_ptr<const TuningSet> TunedSet(FakeWorld& world, const TuneOptions& options = {}) {
  return SetWith(*world.MakeEngine()->Tune(world.chain, 16, options)->entry);
}

std::shared_ptr<const TuningSet> ClusterSet() {
  FakeWorld world;
  MakeClusterFastest(world);
  return TunedSet(world);
}

std::shared_ptr<const PreparedPlan> Prepared(FakeWorld& world, int64_t m = 16,
                                             const PrepareOptions& options = {}) {
  return world.MakeEngine()->Prepare(world.chain, m, options).value();
}

TEST(TunedPlanTest, AContextTakesTheMeasuredChoiceFromItsSetAlone) {
  FakeWorld untuned;
  const auto predicted = Prepared(untuned);
  EXPECT_EQ(DataflowOf(*predicted), "grid-exchange");
  EXPECT_THAT(predicted->Explain(), HasSubstr("\ntuning: none\n"));

  FakeWorld world{.tuning = ClusterSet()};
  const auto engine = world.MakeEngine();
  const auto tuned = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(DataflowOf(*tuned), "cluster-exchange");
  EXPECT_EQ(tuned->plan().kernels[0].measured_us, 8);
  const std::string text = tuned->Explain();
  EXPECT_THAT(text, HasSubstr("\ntuning: " + world.tuning->SetDigest().Hex().substr(0, 16) +
                              ", measured 8.00 us on Fake H200, the predicted choice 11.00 us"));
  EXPECT_THAT(text, HasSubstr("digest with the tuning set: " + tuned->ChosenDigest().Hex()));
  EXPECT_THAT(text, HasSubstr(std::string(kTunedAway)));
  EXPECT_EQ(engine->Stats().tuned_plans, 1u);
  EXPECT_EQ(engine->Stats().tuned_refused, 0u);
}

TEST(TunedPlanTest, TuningAloneChangesNoPlan) {
  FakeWorld world;
  MakeClusterFastest(world);
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Tune(world.chain, 16, {}).ok());
  EXPECT_EQ(DataflowOf(*engine->Prepare(world.chain, 16, {}).value()), "grid-exchange");
  EXPECT_EQ(DataflowOf(*Prepared(world)), "grid-exchange");  // another process, same cache
}

TEST(TunedPlanTest, TheSetsDigestIsPartOfThePlanKeyAndOfThePlansDigest) {
  FakeWorld world;
  const Digest untuned = Prepared(world)->ChosenDigest();
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 1);
  world.tuning = ClusterSet();
  const Digest tuned = Prepared(world)->ChosenDigest();
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 2);
  // A set that says nothing of this plan leaves the plan, and tells ranks apart all the same.
  world.tuning = std::make_shared<const TuningSet>();
  const auto other = Prepared(world);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 3);
  EXPECT_EQ(other->plan().PlanDigest(), untuned);
  EXPECT_THAT(other->Explain(), HasSubstr("no entry for this plan"));
  EXPECT_NE(untuned, tuned);
  EXPECT_NE(other->ChosenDigest(), untuned);
  EXPECT_NE(other->ChosenDigest(), tuned);
  // Without a set again, the plan is what it was.
  world.tuning = nullptr;
  EXPECT_EQ(Prepared(world)->ChosenDigest(), untuned);
}

TEST(TunedPlanTest, AWarmPrepareTakesTheTunedPlanFromTheCache) {
  FakeWorld world{.tuning = ClusterSet()};
  const auto cold = Prepared(world);
  const int plans = world.plans, compiles = world.compiles;
  const auto warm = Prepared(world);
  EXPECT_EQ(world.plans, plans);
  EXPECT_EQ(world.compiles, compiles);
  EXPECT_EQ(warm->ChosenDigest(), cold->ChosenDigest());
  EXPECT_THAT(warm->Explain(), HasSubstr("measured 8.00 us"));
}

TEST(TunedPlanTest, BatchInvariantPlansHaveEntriesOfTheirOwn) {
  FakeWorld world;
  MakeClusterFastest(world);
  FakeWorld user{.tuning = TunedSet(world, {.batch_invariant = true})};
  EXPECT_EQ(DataflowOf(*Prepared(user)), "grid-exchange");
  PrepareOptions invariant{.batch_invariant = true};
  const auto plan = Prepared(user, 16, invariant);
  EXPECT_EQ(DataflowOf(*plan), "cluster-exchange");
  EXPECT_THAT(plan->Explain(), HasSubstr("  batch-invariant\n"));
}

TEST(TunedPlanTest, OtherBucketsChainsChipsAndFlagsAreNotItsBusiness) {
  FakeWorld world{.tuning = ClusterSet()};
  EXPECT_EQ(DataflowOf(*Prepared(world, 32)), "grid-exchange");
  EXPECT_EQ(DataflowOf(*Prepared(world, 16, {.batch_invariant = true})), "grid-exchange");
  world.model.sm_count -= 4;
  EXPECT_EQ(DataflowOf(*Prepared(world)), "grid-exchange");
  EXPECT_EQ(world.MakeEngine()->Stats().tuned_refused, 0u);
}

TEST(TunedPlanTest, SurvivesALibraryThatLeavesItsKernelsAlone) {
  FakeWorld world{.tuning = ClusterSet()};
  world.model.stage_us *= 3;  // the cost model was recalibrated
  world.cluster_us = 30;      // and predicts something else
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(DataflowOf(*plan), "cluster-exchange");
  EXPECT_EQ(plan->plan().PredictedUs(), 12);  // as when it was measured: nothing is planned
  EXPECT_EQ(world.plans, 0);
  EXPECT_EQ(engine->Stats().tuned_plans, 1u);
}

// The cache has one rule with tuning sets: a choice serves as long as its kernels are the measured
// ones.
TEST(TunedPlanTest, TheCachesChoiceSurvivesWhatATuningSetsChoiceSurvives) {
  FakeWorld world;
  MakeClusterFastest(world);
  const PrepareOptions measure = MeasuredBy(Measuring::Mode::kFirst);
  ASSERT_EQ(DataflowOf(*Prepared(world, 16, measure)), "cluster-exchange");
  const int timings = world.timings;
  const PrepareOptions kept = MeasuredBy(Measuring::Mode::kKept);
  world.model.stage_us *= 3;  // recalibrated
  EXPECT_EQ(DataflowOf(*Prepared(world, 16, kept)), "cluster-exchange");
  world.header = "int shared; // said better\n";  // the kernels' text stays
  EXPECT_EQ(DataflowOf(*Prepared(world, 16, kept)), "cluster-exchange");
  EXPECT_EQ(world.timings, timings);
  // Kernels are compared once per set of headers.
  const int generated = world.generated;
  EXPECT_EQ(DataflowOf(*Prepared(world, 16, kept)), "cluster-exchange");
  EXPECT_EQ(world.generated, generated);
  world.cluster_header = "int faster;\n";
  const auto engine = world.MakeEngine();
  EXPECT_EQ(DataflowOf(*engine->Prepare(world.chain, 16, kept).value()), "grid-exchange");
  EXPECT_THAT(world.log, ::testing::Contains(HasSubstr("kernel 0 changed since it was measured")));
  EXPECT_EQ(world.timings, timings);
  // Where it may measure, it does.
  EXPECT_EQ(DataflowOf(*Prepared(world, 16, measure)), "cluster-exchange");
  EXPECT_GT(world.timings, timings);
}

// What a tuning keeps in a set, and what a measuring prepare keeps in the cache and its packs.
TEST(TunedPlanTest, ASetsChoiceAndTheCachesAreOneRecord) {
  FakeWorld world;
  MakeClusterFastest(world);
  const TuningEntry entry = *world.MakeEngine()->Tune(world.chain, 16, {})->entry;
  FakeWorld measuring;
  MakeClusterFastest(measuring);
  const PrepareOptions measure = MeasuredBy(Measuring::Mode::kFirst);
  ASSERT_EQ(DataflowOf(*Prepared(measuring, 16, measure)), "cluster-exchange");
  ASSERT_EQ(measuring.disk->Count(RecordKind::kPlan), 1);
  const PlanRecord record = DecodePlanRecord(measuring.disk->records.begin()->second).value();
  const PlanRecord of_set = DecodePlanRecord(entry.record).value();
  EXPECT_EQ(record.choice->kernels, of_set.choice->kernels);
  EXPECT_EQ(record.choice->measured_us, of_set.choice->measured_us);
  EXPECT_EQ(record.planned, of_set.planned);
  EXPECT_EQ(record.tuning, of_set.tuning);
  ASSERT_EQ(record.variants.size(), of_set.variants.size());
  for (size_t i = 0; i < record.variants.size(); ++i) {
    EXPECT_EQ(EncodeDecisions(record.variants[i].decisions),
              EncodeDecisions(of_set.variants[i].decisions));
  }
}

TEST(TunedPlanTest, AKernelThatChangedIsChosenByPredictionCountedAndLogged) {
  FakeWorld world{.tuning = ClusterSet()};
  world.cluster_header = "int faster;\n";
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(DataflowOf(*plan), "grid-exchange");
  EXPECT_THAT(plan->Explain(), HasSubstr("entry not used: kernel 0 changed since it was measured"));
  EXPECT_EQ(engine->Stats().tuned_plans, 0u);
  EXPECT_EQ(engine->Stats().tuned_refused, 1u);
  EXPECT_THAT(world.log, ::testing::Contains(HasSubstr("kernel 0 changed since it was measured")));
}

// What a set chooses depends on the headers of what it names: a plan that was made before a change
// is not taken after it.
TEST(TunedPlanTest, AChangedKernelMakesAnotherPlanKey) {
  FakeWorld world{.tuning = ClusterSet()};
  EXPECT_EQ(DataflowOf(*Prepared(world)), "cluster-exchange");
  const std::string measured = world.cluster_header;
  world.cluster_header = "int faster;\n";
  EXPECT_EQ(DataflowOf(*Prepared(world)), "grid-exchange");
  world.cluster_header = measured;
  const int plans = world.plans;
  EXPECT_EQ(DataflowOf(*Prepared(world)), "cluster-exchange");
  EXPECT_EQ(world.plans, plans) << "the first record serves again";
}

// Entries that were made by hand, by another library, or for another chain.
TEST(TunedPlanTest, WhatThisLibraryCannotRunIsRefusedWithTheReason) {
  const TuningEntry sound = ClusterSet()->entries().begin()->second;
  const auto refused = [&](const TuningEntry& entry) {
    FakeWorld world{.tuning = SetWith(entry)};
    const auto engine = world.MakeEngine();
    const auto plan = engine->Prepare(world.chain, 16, {}).value();
    EXPECT_EQ(DataflowOf(*plan), "grid-exchange");
    EXPECT_EQ(engine->Stats().tuned_refused, 1u);
    return plan->Explain();
  };
  const auto with_record = [&](const std::function<void(PlanRecord&)>& change) {
    TuningEntry entry = sound;
    PlanRecord record = DecodePlanRecord(entry.record).value();
    change(record);
    entry.record = EncodePlanRecord(record);
    return refused(entry);
  };
  const auto with_plan = [&](const std::function<void(Decisions&)>& change) {
    return with_record([&](PlanRecord& record) {
      change(record.variants[0].decisions);
      record.variants[0].sources.resize(record.variants[0].decisions.kernels.size());
      record.choice->kernels.resize(record.variants[0].decisions.kernels.size());
    });
  };
  TuningEntry entry = sound;
  entry.record[0] ^= 0x40;  // the format's number
  EXPECT_THAT(refused(entry), HasSubstr("entry not used: plan record: version"));
  entry = sound;
  entry.record.resize(entry.record.size() / 2);
  EXPECT_THAT(refused(entry), HasSubstr("entry not used: "));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.choice.reset(); }),
              HasSubstr("its plan was not measured"));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.choice->kernels.clear(); }),
              HasSubstr("its choice names 0 kernels of 1"));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.choice->kernels.emplace_back(); }),
              HasSubstr("its choice names 2 kernels of 1"));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.choice->measured_us = -1; }),
              HasSubstr("is not a number >= 0"));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.choice->device = "two\nlines"; }),
              HasSubstr("not one printable line"));
  EXPECT_THAT(with_record([](PlanRecord& r) { r.chain = Digest(); }), HasSubstr("for chain"));
  EXPECT_THAT(with_plan([](Decisions& d) { d.kernels[0].schedule.stages = 60; }),
              HasSubstr("entry not used: "));
  EXPECT_THAT(with_plan([](Decisions& d) { d.kernels[0].ops.values = {0}; }),
              HasSubstr("is not a result of a run"));
  EXPECT_THAT(with_plan([](Decisions& d) { d.kernels[0].products = 1; }),
              HasSubstr("entry not used: "));
  EXPECT_THAT(with_plan([](Decisions& d) { d.kernels.push_back(d.kernels[0]); }),
              HasSubstr("is computed twice"));
  EXPECT_THAT(with_plan([](Decisions& d) { d.kernels[0].schedule.stages = 3; }),
              HasSubstr("changed since it was measured"));
}

TEST(TunedPlanTest, ADamagedRecordIsRefusedOrStillThePlanThatWasMeasured) {
  const TuningEntry sound = ClusterSet()->entries().begin()->second;
  FakeWorld world;
  uint64_t refused = 0;
  for (size_t i = 0; i < sound.record.size(); i += 3) {
    TuningEntry entry = sound;
    entry.record[i] = static_cast<char>(entry.record[i] ^ 0x5a);
    world.tuning = SetWith(entry);
    world.disk = std::make_shared<testing::FakeDisk>();
    const auto engine = world.MakeEngine();
    const auto plan = engine->Prepare(world.chain, 16, {});
    ASSERT_TRUE(plan.ok()) << i << ": " << plan.status();
    const EngineStats stats = engine->Stats();
    EXPECT_EQ(stats.tuned_plans + stats.tuned_refused, 1u) << i;  // never passed over in silence
    EXPECT_EQ(DataflowOf(**plan), stats.tuned_refused == 1 ? "grid-exchange" : "cluster-exchange");
    refused += stats.tuned_refused;
  }
  EXPECT_GT(refused, 0u);
}

TEST(TunedPlanTest, APlanThatIsNotResidentIsReplannedWithoutTheSet) {
  FakeWorld tuner{.times = {{"grid", 8}, {"cluster", 11}}};
  tuner.cluster_us = 5;  // predicted best, measured slower
  FakeWorld world{.tuning = TunedSet(tuner), .resident_clusters = 14};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(DataflowOf(*plan), "cluster-exchange");
  EXPECT_EQ(engine->Stats().non_resident_fallbacks, 1u);
  FakeWorld full{.tuning = world.tuning};
  EXPECT_EQ(Prepared(full)->ChosenDigest(), plan->ChosenDigest());
}

TEST(TunedPlanTest, EightThreadsWithContextsOfTheirOwnAgree) {
  const std::shared_ptr<const TuningSet> set = ClusterSet();
  std::vector<Digest> digests(8);
  OnThreads(digests.size(), [&](int i) {
    FakeWorld world{.tuning = set};
    digests[i] = Prepared(world)->ChosenDigest();
  });
  EXPECT_THAT(digests, ::testing::Each(digests[0]));
}

#if defined(__SANITIZE_THREAD__)
#define SINTER_NO_FORK 1
#endif
#ifndef SINTER_NO_FORK
// Each reads the file for itself, as ranks do, and has a cache of its own.
TEST(TunedPlanTest, EightProcessesThatReadOneFileAgree) {
  const TempDir folder;
  const std::string path = folder / "ranks.tuning";
  ASSERT_TRUE(WriteTuningFile(*ClusterSet(), path).ok());
  FakeWorld world{.tuning = ClusterSet()};
  const std::string want = Prepared(world)->ChosenDigest().Hex();
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(
        EndOfChild([&] {
          FakeWorld own{.tuning = std::make_shared<const TuningSet>(Got(ReadTuningFile(path)))};
          return Prepared(own)->ChosenDigest().Hex() == want ? 0 : 1;
        }),
        0)
        << rank;
  }
}
#endif

TEST(BatchInvariantTest, TheFlagIsPartOfThePlanKeyAndThePlanSaysSo) {
  FakeWorld world;
  PrepareOptions invariant{.batch_invariant = true};
  const auto plain = Prepared(world);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 1);
  const auto by_option = Prepared(world, 16, invariant);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 2);
  Config config;
  config.batch_invariant = true;  // SINTER_BATCH_INVARIANT=1
  const auto by_config = world.MakeEngine(config)->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 2);
  EXPECT_EQ(world.batch_invariant_plans, 1);
  EXPECT_EQ(plain->Explain().find("batch-invariant"), std::string::npos);
  EXPECT_THAT(by_config->Explain(), HasSubstr("  batch-invariant\n"));
  EXPECT_EQ(by_config->ChosenDigest(), by_option->ChosenDigest());
  EXPECT_NE(by_config->ChosenDigest(), plain->ChosenDigest());
  EXPECT_TRUE(by_config->plan().IsBatchInvariant());
}

}  // namespace
}  // namespace sinter
