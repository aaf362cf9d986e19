// Deadlines and cancelling of prepares whose planning takes long: real planning and code
// generation, a compiler that takes no time.
#include "src/base/keep_going.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Reads a graph of tests/bench/stitch/large.py, which the CTest fixture runs.
Chain LargeGraph(const std::string& name) {
  const char* folder = std::getenv("SINTER_LARGE_GRAPHS");
  EXPECT_NE(folder, nullptr)
      << "run this test by ctest, or set SINTER_LARGE_GRAPHS to large.py's --out";
  const std::string text =
      FileText(std::string(folder != nullptr ? folder : ".") + "/" + name + ".json");
  return Got(ChainFromJson(text), name);
}

// Between planning and its limits: counts the asks, those that were refused, and those that came
// after `cancelled`.
class Counting : public KeepGoing {
 public:
  Counting(const KeepGoing& limits, const std::atomic<bool>& cancelled)
      : limits_(limits), cancelled_(cancelled) {}
  absl::Status Check() const override {
    const bool late = cancelled_;
    absl::Status status = limits_.Check();
    ++asked;
    refused += !status.ok();
    came_late += late;
    return status;
  }
  mutable int asked = 0, refused = 0, came_late = 0;

 private:
  const KeepGoing& limits_;
  const std::atomic<bool>& cancelled_;
};

class DeadlineTest : public ::testing::Test {
 protected:
  DeadlineTest() {
    world.has_gpu = false;
    world.plan = [this](const Chain& chain, int64_t m, const DeviceModel& model,
                        const FusionOptions& options) {
      const Counting port(*options.keep_going, cancel);
      FusionOptions counted = options;
      counted.keep_going = &port;
      absl::StatusOr<FusionResult> result = PlanChain(chain, m, model, counted);
      EXPECT_EQ(result.ok(), port.refused == 0);
      asked += port.asked, refused += port.refused, came_late += port.came_late;
      return result;
    };
    world.generate = [this](const KernelSpec& spec, const DeviceModel& model) {
      EXPECT_EQ(refused, 0) << "the prepare went on after its planning was stopped";
      return Generate(spec, model);
    };
  }

  // Prepares cold; returns its milliseconds. Planning that is refused ends with that ask: how long
  // it is between two is what stop_test.cc holds.
  double ExpectObedience(const Chain& chain, int64_t deadline_ms, absl::Status* status) {
    world.disk = std::make_shared<testing::FakeDisk>();
    asked = refused = 0;
    PrepareOptions options{.deadline_us = deadline_ms * 1000};
    const Clock::time_point start = Clock::now();
    *status = world.MakeEngine()->Prepare(chain, 1, options).status();
    const double took = MsSince(start);
    EXPECT_TRUE(status->ok() || absl::IsDeadlineExceeded(*status)) << *status;
    EXPECT_TRUE(status->ok() || took >= static_cast<double>(deadline_ms)) << took;
    EXPECT_LE(refused, 1);
    return took;
  }

  FakeWorld world;
  std::atomic<bool> cancel{false};
  std::atomic<int> asked{0}, refused{0}, came_late{0};
};

// The median, of which a busy machine disturbs few, against what all of the planning takes in the
// same run.
TEST_F(DeadlineTest, LargeGraphsComeBackInTime) {
  std::vector<double> overruns, wholes;
  for (const char* name : {"crnn_head", "dien_train", "adamw_60_tensors"}) {
    const Chain chain = LargeGraph(name);
    absl::Status status;
    wholes.push_back(ExpectObedience(chain, 600000, &status));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_GT(asked, 100) << name;
    for (const int deadline_ms : {10, 50, 200}) {
      overruns.push_back(ExpectObedience(chain, deadline_ms, &status) - deadline_ms);
      EXPECT_FALSE(deadline_ms == 10 && status.ok()) << name;
    }
  }
  std::sort(overruns.begin(), overruns.end());
  std::sort(wholes.begin(), wholes.end());
  EXPECT_LT(overruns[overruns.size() / 2], wholes[wholes.size() / 2] / 4);
}

TEST_F(DeadlineTest, WhatCameTooLateLeavesNothingAndTheNextCallSucceeds) {
  const Chain chain = LargeGraph("dien_train");
  const auto engine = world.MakeEngine();
  const absl::Status late = engine->Prepare(chain, 1, {.deadline_us = 20 * 1000}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_TRUE(world.disk->records.empty());
  EXPECT_TRUE(world.disk->locked.empty());
  refused = 0;
  const auto plan = Got(engine->Prepare(chain, 1, {}));
  FakeWorld other{.plan = world.plan, .generate = world.generate, .has_gpu = false};
  EXPECT_EQ(plan->ChosenDigest(),
            other.MakeEngine()->Prepare(chain, 1, {}).value()->ChosenDigest());
}

TEST_F(DeadlineTest, CancellingStopsASearch) {
  const Chain chain = LargeGraph("crnn_head");
  std::atomic<bool> searching{false};
  PrepareOptions options{.cancel = &cancel};
  options.progress = [&](absl::string_view stage, double) {
    searching = searching || stage == "search";
  };
  std::thread canceller([&] {
    while (!searching) std::this_thread::yield();
    cancel = true;
  });
  const absl::Status status = world.MakeEngine()->Prepare(chain, 1, options).status();
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_LE(came_late, 1);  // the next ask ends it
  EXPECT_TRUE(world.disk->records.empty());
}

// Another thread searches the same plan and goes on; a waiting caller obeys its own deadline.
TEST_F(DeadlineTest, AWaiterComesBackInTimeAndTheBuilderIsNotDisturbed) {
  const Chain chain = LargeGraph("dien_train");
  std::atomic<bool> searching{false}, go_on{false};
  world.plan = [&](const Chain& of, int64_t m, const DeviceModel& model,
                   const FusionOptions& options) {
    searching = true;
    while (!go_on) std::this_thread::yield();
    return PlanChain(of, m, model, options);
  };
  const auto engine = world.MakeEngine();
  std::thread builder([&] { EXPECT_TRUE(engine->Prepare(chain, 1, {}).ok()); });
  while (!searching) std::this_thread::yield();
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(engine->Prepare(chain, 1, {.deadline_us = 10 * 1000}).status()));
  go_on = true;  // the builder was at its search until now
  builder.join();
}

// Two engines on one store are two processes to it: the second waits for the first one's lock.
TEST(LockDeadlineTest, AnotherProcessesBuildIsWaitedForUntilTheDeadline) {
  FakeWorld world{.has_gpu = false};
  std::atomic<bool> planning{false}, go_on{false};
  world.plan = [&](const Chain&, int64_t, const DeviceModel&, const FusionOptions&) {
    planning = true;
    while (!go_on) std::this_thread::yield();
    return absl::StatusOr<FusionResult>(absl::InternalError("of no interest"));
  };
  std::thread other([&] { EXPECT_FALSE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok()); });
  while (!planning) std::this_thread::yield();
  const absl::Status status =
      world.MakeEngine()->Prepare(world.chain, 16, {.deadline_us = 30 * 1000}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  go_on = true;  // the other held its lock until now
  other.join();
}

}  // namespace
}  // namespace sinter
