// Prepare, seen through its counters: cold, warm, damaged, in parallel, cut short.
#include "cache/record/record.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using Choice = PrepareOptions::Choice;

int32_t Number(ErrorCode code) { return static_cast<int32_t>(code); }

PrepareOptions Chosen(Choice choice) { return PrepareOptions{.choice = choice}; }

TEST(PrepareTest, ColdSearchesOnceAndCompilesOnlyWhatRuns) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_EQ(plan->plan().name(), "fused");
  EXPECT_EQ(plan->plan().bucket, 16);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.searched, 1u);
  EXPECT_EQ(stats.kernels_compiled, 1u);
  EXPECT_EQ(stats.kernels_loaded, 1u);
  EXPECT_EQ(stats.kernel_hits, 0u);
  EXPECT_EQ(stats.plan_hits, 0u);
  EXPECT_TRUE(stats.nvrtc_loaded);
  EXPECT_EQ(world.disk->Count(RecordKind::kPlan), 1);
  EXPECT_EQ(world.disk->Count(RecordKind::kKernel), 1);
}

TEST(PrepareTest, WarmSearchesNothingCompilesNothingAndOpensNoCompiler) {
  FakeWorld cold;
  const Digest digest = cold.MakeEngine()->Prepare(cold.chain, 16, {}).value()->plan().PlanDigest();
  FakeWorld warm{.disk = cold.disk};
  const auto engine = warm.MakeEngine();
  const auto plan = engine->Prepare(warm.chain, 9, {}).value();
  EXPECT_EQ(plan->plan().PlanDigest(), digest);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.searched, 0u);
  EXPECT_EQ(stats.kernels_compiled, 0u);
  EXPECT_EQ(stats.kernel_hits, 1u);
  EXPECT_EQ(stats.plan_hits, 1u);
  EXPECT_FALSE(stats.nvrtc_loaded);
  EXPECT_EQ(warm.plans, 0);
}

TEST(PrepareTest, SecondPrepareInTheProcessTouchesNothing) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const auto first = engine->Prepare(world.chain, 16, {}).value();
  const StoreStats before = engine->Stats().store;
  const auto second = engine->Prepare(world.chain, 10, {}).value();
  const StoreStats after = engine->Stats().store;
  EXPECT_EQ(&first->plan(), &second->plan());
  EXPECT_EQ(before.local_hits, after.local_hits);
  EXPECT_EQ(engine->Stats().plan_hits, 1u);
}

TEST(PrepareTest, BucketsFlagsAndChoicesAreKeysOfTheirOwn) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const auto a = engine->Prepare(world.chain, 16, {}).value();
  const auto b = engine->Prepare(world.chain, 17, {}).value();
  const auto c = engine->Prepare(world.chain, 16, {.batch_invariant = true}).value();
  EXPECT_EQ(engine->Stats().searched, 3u);
  EXPECT_EQ(b->plan().bucket, 32);
  const auto d = engine->Prepare(world.chain, 16, Chosen(Choice::kUnfused)).value();
  EXPECT_EQ(d->plan().name(), "unfused");
  EXPECT_EQ(engine->Stats().searched, 3u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 4u);  // one for all buckets, the flag's, two products
  EXPECT_EQ(d->ChosenDigest(), a->ChosenDigest());
}

TEST(PrepareTest, FusedCanBeAskedForWhenItIsNotTheBest) {
  FakeWorld world{.unfused_is_best = true};
  const auto engine = world.MakeEngine();
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().name(), "unfused");
  EXPECT_EQ(engine->Prepare(world.chain, 16, Chosen(Choice::kFused)).value()->plan().name(),
            "fused");
}

TEST(PrepareTest, AMissingKernelIsBuiltAloneAndADamagedRecordToo) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const std::string key = world.disk->Keys(RecordKind::kKernel).front();
  const std::string good = world.disk->records[{RecordKind::kKernel, key}];
  KernelRecord refused_by_driver = DecodeKernelRecord(good).value();
  refused_by_driver.cubin += "UNLOADABLE";
  KernelRecord foreign_entry = DecodeKernelRecord(good).value();
  foreign_entry.entry = "other";
  const std::vector<std::string> damages = {"", good.substr(0, good.size() / 2), "nonsense",
                                            EncodeKernelRecord(refused_by_driver),
                                            EncodeKernelRecord(foreign_entry)};
  int compiles = world.compiles;
  for (const std::string& damage : damages) {
    world.disk->records[{RecordKind::kKernel, key}] = damage;
    const auto engine = world.MakeEngine();
    EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
    EXPECT_EQ(engine->Stats().searched, 0u);
    EXPECT_EQ(world.compiles, ++compiles);
    EXPECT_EQ((world.disk->records[{RecordKind::kKernel, key}]), good);
  }
  world.disk->records.erase({RecordKind::kKernel, key});
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, ++compiles);
}

TEST(PrepareTest, ADamagedPlanRecordIsSearchedAgainAndItsKernelsServe) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const std::string key = world.disk->Keys(RecordKind::kPlan).front();
  std::string& record = world.disk->records[{RecordKind::kPlan, key}];
  const std::string good = record;
  record[record.size() / 2] ^= 1;
  record.resize(record.size() - 3);
  const auto engine = world.MakeEngine();
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 0u);
  EXPECT_EQ((world.disk->records[{RecordKind::kPlan, key}]), good);
}

TEST(PrepareTest, SixteenThreadsOnOneKeyCompileEachKernelOnce) {
  FakeWorld world{.unfused_is_best = true, .compile_ms = 30};
  const auto engine = world.MakeEngine();
  std::atomic<int> ready{0};
  OnThreads(16, [&](int) { ready += engine->Prepare(world.chain, 16, {}).ok(); });
  EXPECT_EQ(ready, 16);
  EXPECT_EQ(world.plans, 1);
  EXPECT_EQ(world.compiled["first"], 1);
  EXPECT_EQ(world.compiled["second"], 1);
  EXPECT_EQ(engine->Stats().prepares, 16u);
  EXPECT_EQ(engine->Stats().waits + engine->Stats().plan_hits, 15u);
}

TEST(PrepareTest, EightProcessesOnOneFolderCompileEachKernelOnce) {
  FakeWorld world{.compile_ms = 20};
  std::vector<std::shared_ptr<Engine>> engines;
  for (int i = 0; i < 8; ++i) engines.push_back(world.MakeEngine());
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (const auto& engine : engines) {
    threads.emplace_back([&, engine] { ready += engine->Prepare(world.chain, 16, {}).ok(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ready, 8);
  EXPECT_EQ(world.plans, 1);
  EXPECT_EQ(world.compiles, 1);
}

TEST(PrepareTest, AFailureOfPlanningIsReportedAndRetriedLater) {
  FakeWorld world{.plan_failures = 1};
  const auto engine = world.MakeEngine();
  const absl::Status failed = engine->Prepare(world.chain, 16, {}).status();
  EXPECT_EQ(StatusNumber(failed), Number(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
}

TEST(PrepareTest, AFailureOfEveryCompileIsReportedAndRetriedLater) {
  FakeWorld world;
  world.compile_failures = 4;  // fused twice over, and both products
  const auto engine = world.MakeEngine();
  const absl::Status failed = engine->Prepare(world.chain, 16, {}).status();
  EXPECT_EQ(StatusNumber(failed), Number(ErrorCode::kCompileFailed));
  EXPECT_TRUE(Says(failed, "registers spill in grid"));
  std::string storage;
  EXPECT_EQ(CompileLogOf(failed, &storage), "spill log");
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().name(), "fused");
  EXPECT_EQ(engine->Stats().searched, 1u);
}

TEST(PrepareTest, MustHitNamesTheKeyAndTheReason) {
  FakeWorld world;
  PrepareOptions must_hit{.must_hit = true};
  const absl::Status no_plan = world.MakeEngine()->Prepare(world.chain, 16, must_hit).status();
  EXPECT_EQ(StatusNumber(no_plan), Number(ErrorCode::kCacheMiss));
  EXPECT_TRUE(Says(no_plan, ": absent"));
  EXPECT_TRUE(Says(no_plan, "; missing: bucket 16 of "));
  EXPECT_TRUE(Says(no_plan, " -m 16 --target "));
  EXPECT_EQ(world.plans, 0);

  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const int compiles = world.compiles;
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, must_hit).ok());
  const std::string key = world.disk->Keys(RecordKind::kKernel).front();
  world.disk->records[{RecordKind::kKernel, key}] = "nonsense";
  const absl::Status damaged = world.MakeEngine()->Prepare(world.chain, 16, must_hit).status();
  EXPECT_EQ(StatusNumber(damaged), Number(ErrorCode::kCacheMiss));
  EXPECT_TRUE(Says(damaged, absl::StrCat(Sha256(key).Hex(), " is not in the cache: damaged")));
  EXPECT_EQ(world.compiles, compiles);
}

TEST(PrepareTest, AKernelThatIsHeldCountsAsUsed) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const auto held = Got(engine->Prepare(world.chain, 16, {}));
  const std::string kernel = world.disk->Keys(RecordKind::kKernel).front();
  EXPECT_EQ(world.disk->used[kernel], 0);
  PrepareOptions must_hit;  // which assembles a plan of its own of the kernels that are held
  must_hit.must_hit = true;
  ASSERT_TRUE(engine->Prepare(world.chain, 16, must_hit).ok());
  EXPECT_EQ(world.disk->used[kernel], 1);
}

TEST(PrepareTest, NoBuildTakesWhatIsThereAndSaysWhatIsMissing) {
  FakeWorld world;
  PrepareOptions no_build{.must_hit = true, .no_build = true};
  const auto engine = world.MakeEngine();
  const absl::Status no_plan = engine->Prepare(world.chain, 16, no_build).status();
  EXPECT_TRUE(Fails(no_plan, absl::StatusCode::kNotFound, "plan "));
  EXPECT_TRUE(Says(no_plan, " is not in the cache: absent"));
  EXPECT_EQ(world.plans, 0);
  EXPECT_FALSE(world.opened);

  const auto built = Got(engine->Prepare(world.chain, 16, {}));
  const int compiles = world.compiles;
  world.build_id = "another compiler by now";
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, no_build).ok());
  const std::string key = world.disk->Keys(RecordKind::kKernel).front();
  world.disk->records.erase({RecordKind::kKernel, key});
  EXPECT_TRUE(Fails(world.MakeEngine()->Prepare(world.chain, 16, no_build),
                    absl::StatusCode::kNotFound,
                    absl::StrCat("kernel ", Sha256(key).Hex(), " is not in the cache")));
  EXPECT_EQ(world.disk->explained, 0);
  EXPECT_EQ(world.compiles, compiles);

  world.disk->records.clear();  // the plan that lives needs no cache
  EXPECT_EQ(&engine->Prepare(world.chain, 16, no_build).value()->plan(), &built->plan());
}

TEST(PrepareTest, NoBuildWaitsForNobodyWhoBuilds) {
  FakeWorld world{.compile_ms = 2000};
  const auto engine = world.MakeEngine();
  std::thread builder([&] { EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok()); });
  while (world.compiles == 0) std::this_thread::yield();
  PrepareOptions no_build{.no_build = true};
  for (const auto& asked : {engine, world.MakeEngine()}) {  // this process, and another
    EXPECT_TRUE(absl::IsNotFound(asked->Prepare(world.chain, 16, no_build).status()));
  }
  EXPECT_EQ(engine->Stats().kernels_compiled, 0u);  // it is still at it
  builder.join();
}

TEST(PrepareTest, CancelBetweenStagesKeepsWhatWasFinished) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  std::atomic<bool> cancel{false};
  PrepareOptions options{.cancel = &cancel};
  options.progress = [&](absl::string_view stage, double) { cancel = stage == "compile"; };
  // The compile that had been announced is finished; what follows is not begun.
  EXPECT_TRUE(absl::IsCancelled(engine->Prepare(world.chain, 16, options).status()));
  EXPECT_EQ(world.compiles, 1);
  EXPECT_EQ(world.disk->Count(RecordKind::kKernel), 1);
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.plans, 1);
  EXPECT_EQ(world.compiles, 1);
}

TEST(PrepareTest, DeadlineIsCheckedBetweenStages) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  PrepareOptions options{.deadline_us = 200 * 1000};
  options.progress = [](absl::string_view stage, double) {
    if (stage == "compile") std::this_thread::sleep_for(std::chrono::milliseconds(250));
  };
  EXPECT_TRUE(absl::IsDeadlineExceeded(engine->Prepare(world.chain, 16, options).status()));
  EXPECT_EQ(world.disk->Count(RecordKind::kKernel), 1);
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 1);
}

TEST(PrepareTest, ProgressTellsTheStagesInOrder) {
  FakeWorld world;
  std::vector<std::string> stages;
  PrepareOptions options;
  options.progress = [&](absl::string_view stage, double) { stages.emplace_back(stage); };
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, options).ok());
  const auto planned =
      MatchesRegex("planned: [0-9]+ kernels?, [0-9.]+ us predicted, [0-9]+ bytes of workspace");
  EXPECT_THAT(stages,
              ElementsAre("look up", "search", planned, "open compiler", "compile", "ready"));
  stages.clear();
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, options).ok());
  EXPECT_THAT(stages, ElementsAre("look up", planned, "ready")) << "the record is in the cache";
}

TEST(PrepareTest, RowsOutOfRangeAreRefused) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  EXPECT_TRUE(absl::IsOutOfRange(engine->Prepare(world.chain, -1, {}).status()));
  EXPECT_TRUE(absl::IsOutOfRange(engine->Prepare(world.chain, int64_t{1} << 40, {}).status()));
  EXPECT_EQ(engine->Prepare(world.chain, 0, {}).value()->plan().bucket, 1);
  EXPECT_EQ(engine->Prepare(world.chain, 100000, {}).value()->plan().bucket, kLargestBucket);
}

TEST(PrepareTest, AChainWithoutMIsPlannedForItsOwnRows) {
  FakeWorld world{.chain = testing::TestChain(100)};
  EXPECT_EQ(world.MakeEngine()->Prepare(world.chain, 1, {}).value()->plan().bucket, 112);
}

TEST(PrepareTest, ExplainSaysWhereEverythingCameFrom) {
  FakeWorld world;
  const auto cold = world.MakeEngine()->Prepare(world.chain, 16, {}).value()->Explain();
  EXPECT_THAT(cold, HasSubstr("searched now"));
  EXPECT_THAT(cold, HasSubstr("compiled in"));
  EXPECT_THAT(cold, HasSubstr("20.00 us  the plain plan\n                 predicted slower\n"));
  const auto warm = world.MakeEngine()->Prepare(world.chain, 16, {}).value()->Explain();
  EXPECT_THAT(warm, HasSubstr("plan from the cache"));
  EXPECT_THAT(warm, HasSubstr("from the cache (local), 168 registers, not verified"));
}

TEST(PrepareTest, DumpWritesChainPlanSourceAndLog) {
  FakeWorld world{.refused = {"grid"}};
  Config config;
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "engine_dump";
  std::filesystem::remove_all(dir);
  config.dump_dir = dir.string();
  const auto plan = world.MakeEngine(config)->Prepare(world.chain, 16, {}).value();
  const auto folder = dir / plan->plan().PlanDigest().Hex().substr(0, 16);
  for (const char* name : {"chain.json", "plan.txt", "plan.json", "kernel0.cu", "kernel0.log"}) {
    EXPECT_GT(std::filesystem::file_size(folder / name), 0u) << name;
  }
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    refused += entry.path().filename().string().rfind("refused-", 0) == 0;
  }
  EXPECT_EQ(refused, 2);
  std::filesystem::remove_all(dir);
}

TEST(PrepareTest, AnUnwritableDumpFolderIsOneMatterForTheLog) {
  FakeWorld world;
  EXPECT_TRUE(world.MakeEngine({.dump_dir = "/proc/nowhere", .log_level = LogLevel::kWarn})
                  ->Prepare(world.chain, 16, {})
                  .ok());
  std::lock_guard<std::mutex> lock(world.mutex);
  const auto dumps = std::count_if(world.log.begin(), world.log.end(), [](const std::string& line) {
    return line.find("dump: cannot write: ") != std::string::npos &&
           line.find("/proc/nowhere") != std::string::npos;
  });
  EXPECT_EQ(dumps, 1) << world.log.size() << " lines";
}

}  // namespace
}  // namespace sinter
