#include <signal.h>

#include <future>

#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

// ThreadSanitizer refuses new threads in the child of a process that had several.
#if defined(__SANITIZE_THREAD__)
constexpr bool kChildrenMayHaveThreads = false;
#elif defined(__has_feature)
constexpr bool kChildrenMayHaveThreads = !__has_feature(thread_sanitizer);
#else
constexpr bool kChildrenMayHaveThreads = true;
#endif

TEST(WorkQueueTest, DoesJobsInOrderAndAllOfThemBeforeItGoes) {
  std::vector<int> done;
  {
    WorkQueue writer(1000, 1000);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(writer.Push(1, [&, i] { done.push_back(i); }));
  }
  ASSERT_EQ(done.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(done[i], i);
}

TEST(WorkQueueTest, FlushWaitsForWhatWasPushed) {
  WorkQueue writer(1000, 1000);
  writer.Flush();
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) writer.Push(1, [&] { ++done; });
  writer.Flush();
  EXPECT_EQ(done, 20);
}

TEST(WorkQueueTest, AFullQueueRefusesByBytesAndByJobs) {
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  WorkQueue bytes(100, 1000), jobs(1000, 2);
  EXPECT_TRUE(bytes.Push(5000, [open] { open.wait(); }));  // too large, but the only one
  EXPECT_FALSE(bytes.Push(1, [] {}));
  EXPECT_TRUE(jobs.Push(1, [open] { open.wait(); }));
  EXPECT_TRUE(jobs.Push(1, [] {}));
  EXPECT_FALSE(jobs.Push(1, [] {}));
  gate.set_value();
  bytes.Flush();
  jobs.Flush();
  EXPECT_TRUE(bytes.Push(100, [] {}));
  EXPECT_TRUE(jobs.Push(1, [] {}));
}

TEST(WorkQueueTest, ItsThreadTakesNoSignals) {
  WorkQueue writer(1000, 1000);
  sigset_t set;
  sigemptyset(&set);
  writer.Push(1, [&] { pthread_sigmask(SIG_BLOCK, nullptr, &set); });
  writer.Flush();
  EXPECT_EQ(sigismember(&set, SIGTERM), 1);
  sigset_t mine;
  pthread_sigmask(SIG_BLOCK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0);
}

TEST(WorkQueueTest, AChildHasItsOwnQueue) {
  if (!kChildrenMayHaveThreads) GTEST_SKIP();
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::atomic<int> done{0};
  auto writer = std::make_unique<WorkQueue>(1000, 1000);
  writer->Push(1, [open] { open.wait(); });
  writer->Push(1, [&] { ++done; });
  EXPECT_EQ(EndOfChild([&] {
              writer->Push(1, [&] { done += 10; });
              writer->Flush();
              writer.reset();
              return done == 10 ? 0 : 1;
            }),
            0);
  gate.set_value();
  writer->Flush();
  EXPECT_EQ(done, 1);
}

TEST(WorkQueueTest, StopTellsTheJobUnderWayAndDropsTheOthers) {
  WorkQueue queue(1000);
  std::promise<void> begun;
  std::atomic<int> done{0};
  EXPECT_TRUE(queue.Push(1, [&] {
    begun.set_value();
    while (!queue.closing()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++done;
  }));
  EXPECT_TRUE(queue.Push(1, [&] { done += 10; }));
  begun.get_future().wait();
  queue.Stop(std::chrono::milliseconds(5));
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(queue.Push(1, [] {}));
  EXPECT_TRUE(queue.Flush());
}

class QueuedPutTest : public testing::Test {
 protected:
  std::unique_ptr<TieredStore> Make(uint64_t memory_bytes, std::shared_ptr<FileOps> ops = nullptr,
                                    uint64_t jobs = 1024) {
    return std::make_unique<TieredStore>(TierOptions{.local_root = temp_.path(),
                                                     .memory_bytes = memory_bytes,
                                                     .sync = false,
                                                     .queue_jobs = jobs,
                                                     .ops = std::move(ops)});
  }
  TempDir temp_;
  // Writes wait until the gate opens.
  std::atomic<bool> open_{false};
  std::shared_ptr<FileOps> gate_ = FilesWhose(FileCall::kWrite, [&] {
    while (!open_) usleep(200);
    return 0;
  });
};

TEST_F(QueuedPutTest, IsFoundAtOnceWrittenLaterAndNotLostAtTheEnd) {
  auto store = Make(/*memory_bytes=*/0, gate_);
  store->Put(kKernel, "k", "first");
  store->Put(kKernel, "k", "second");
  EXPECT_EQ(store->Get(kKernel, "k").payload, "second");
  EXPECT_FALSE(Make(0)->Get(kKernel, "k").hit);
  open_ = true;
  store.reset();
  EXPECT_EQ(Make(0)->Get(kKernel, "k").payload, "second");
}

TEST_F(QueuedPutTest, TheBuildLockIsHeldUntilTheRecordIsThere) {
  auto store = Make(0, gate_);
  const auto other = Make(0);
  auto lock = store->LockForBuild(kKernel, "k", 0);
  ASSERT_NE(lock, nullptr);
  store->Put(kKernel, "k", "v");
  lock.reset();
  EXPECT_EQ(other->LockForBuild(kKernel, "k", 5000), nullptr);
  open_ = true;
  EXPECT_NE(other->LockForBuild(kKernel, "k", 2000000), nullptr);
  EXPECT_EQ(other->Get(kKernel, "k").payload, "v");
}

TEST_F(QueuedPutTest, ALongQueueTakesFewDescriptors) {
  const auto store = Make(0, gate_);
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  for (int i = 0; i < 700; ++i) {
    const std::string key = absl::StrCat("k", i);
    const auto lock = store->LockForBuild(kKernel, key, 0);
    ASSERT_NE(lock, nullptr);
    store->Put(kKernel, key, "v");
  }
  EXPECT_LE(descriptors() - before, 270);
  open_ = true;
  store->Flush();
  EXPECT_EQ(descriptors(), before);
  for (int i = 0; i < 700; ++i) EXPECT_TRUE(Make(0)->Get(kKernel, absl::StrCat("k", i)).hit);
}

// Another store misses what is queued here; who explains the miss says so, and only then.
TEST_F(QueuedPutTest, AMissOfWhatAnotherStoreHasQueuedIsExplained) {
  auto store = Make(0, gate_);
  const auto other = Make(0);
  auto lock = store->LockForBuild(kKernel, "k", 0);
  store->Put(kKernel, "k", "v");
  lock.reset();
  EXPECT_FALSE(other->Get(kKernel, "k").hit);
  EXPECT_THAT(other->ExplainMiss(kKernel, "k"), HasSubstr("not yet written"));
  EXPECT_THAT(other->ExplainMiss(kKernel, "absent"), testing::Not(HasSubstr("not yet written")));
  open_ = true;
  store->Flush();
  EXPECT_TRUE(other->Get(kKernel, "k").hit);
  EXPECT_THAT(other->ExplainMiss(kKernel, "k"), testing::Not(HasSubstr("not yet written")));
}

TEST_F(QueuedPutTest, IsDroppedAndCountedWhenTheQueueIsFull) {
  auto store = Make(1 << 20, gate_, /*jobs=*/3);
  for (int i = 0; i < 10; ++i) store->Put(kKernel, absl::StrCat("k", i), "v");
  EXPECT_EQ(store->Stats().puts_dropped, 7u);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(store->Get(kKernel, absl::StrCat("k", i)).hit);
  open_ = true;
  store->Flush();
  EXPECT_EQ(store->Stats().put_failures, 0u);
  int written = 0;
  const auto other = Make(0);
  for (int i = 0; i < 10; ++i) written += other->Get(kKernel, absl::StrCat("k", i)).hit ? 1 : 0;
  EXPECT_EQ(written, 3);
}

TEST_F(QueuedPutTest, AQuarantineOvertakesIt) {
  auto store = Make(1 << 20, gate_);
  store->Put(kKernel, "k", "wrong");
  std::thread opener([&] {
    usleep(5000);
    open_ = true;
  });
  store->Quarantine(kKernel, "k", "seed 4");
  opener.join();
  store->Flush();
  EXPECT_EQ(store->Get(kKernel, "k").reason, MissReason::kQuarantined);
  EXPECT_EQ(Make(0)->Get(kKernel, "k").reason, MissReason::kQuarantined);
}

TEST_F(QueuedPutTest, DoesNotMakeTheCallerWaitForTheDisk) {
  auto store = Make(1 << 20, gate_);
  const std::string value = RandomBytes(200 << 10, 1);
  const auto start = std::chrono::steady_clock::now();
  store->Put(kKernel, "k", value);
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_LT(spent, std::chrono::seconds(2));  // the gate is shut: a waiting put would never return
  open_ = true;
}

TEST_F(QueuedPutTest, AForkedChildPutsAndGetsWhileTheParentWrites) {
  if (!kChildrenMayHaveThreads) GTEST_SKIP();
  auto store = Make(1 << 20, gate_);
  store->Put(kKernel, "parent", "p");
  EXPECT_EQ(EndOfChild([&] {
              open_ = true;  // the child's copy
              store->Put(kKernel, "child", "c");
              store->Flush();
              const bool ok = store->Get(kKernel, "child").payload == "c" &&
                              store->Get(kKernel, "parent").payload == "p";
              store.reset();
              return ok ? 0 : 1;
            }),
            0);
  open_ = true;
  store->Flush();
  EXPECT_EQ(Make(0)->Get(kKernel, "child").payload, "c");
  EXPECT_EQ(Make(0)->Get(kKernel, "parent").payload, "p");
}

}  // namespace
}  // namespace sinter
