// sinter_slot: a hit, a build in the background, its failure, manual switches, threads, forks.
#include <sys/resource.h>

#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNoTurn = std::chrono::microseconds(std::chrono::seconds(10));
constexpr char kTooLate[] = "prepare: deadline passed before its turn";

// Lets a build begin when it may.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> entered{0}, nice{0};  // the latter of the thread that builds
  sinter_prepare_options Options() {
    sinter_prepare_options options = SINTER_INIT(sinter_prepare_options);
    options.progress = [](uintptr_t user, const char* stage, double) {
      auto* gate = reinterpret_cast<Gate*>(user);
      gate->nice = getpriority(PRIO_PROCESS, 0);
      if (std::strcmp(stage, "look up") == 0) ++gate->entered;
      while (!gate->open) std::this_thread::yield();
    };
    options.progress_user_data = reinterpret_cast<uintptr_t>(this);
    return options;
  }
};

class SlotAbi : public testing::Test {
 protected:
  void SetUp() override {  // is there a compiler?
    PlanPtr plan;
    const Result result =
        TryMake(&plan, sinter_prepare, MakeTarget().get(), chain.get(), 1, nullptr);
    if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
    ASSERT_EQ(result.status, SINTER_OK) << result.message;
  }

  Result Create(SlotPtr* out, const sinter_prepare_options* options = nullptr, uint32_t flags = 0,
                int64_t m = 20) {
    return TryMake(out, sinter_slot_create, context.get(), chain.get(), m, options, flags);
  }
  SlotPtr Slot(const sinter_prepare_options* options = nullptr, uint32_t flags = 0,
               int64_t m = 20) {
    return Made<SlotPtr>(sinter_slot_create, context.get(), chain.get(), m, options, flags);
  }
  Result Acquire(const SlotPtr& slot, PlanPtr* out) {
    return TryMake(out, sinter_slot_acquire, slot.get());
  }
  // The build of `slot` waits for a turn that never comes.
  void ExpectEndsWithoutATurn(const SlotPtr& slot, sinter_status status, const char* message) {
    const Result ended = AwaitBuild(slot, kNoTurn.count());
    EXPECT_EQ(ended.status, status);
    EXPECT_EQ(ended.message, message);
  }
  Result Switch(const SlotPtr& slot) { return Try(sinter_slot_switch, slot.get()); }
  sinter_stats Stats() { return StatsOf(context); }

  ContextPtr context = MakeTarget();
  ChainPtr chain = FromText(kSmall);
};

TEST_F(SlotAbi, AMissIsBuiltInTheBackgroundAndThenCurrent) {
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  PlanPtr plan;
  const SlotPtr slot = Slot(&options);  // although the build waits
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 0u);
  const Result early = Acquire(slot, &plan);
  EXPECT_EQ(early.status, SINTER_NOT_FOUND);
  EXPECT_EQ(early.message, "no plan yet: the slot's is being built in the background");
  EXPECT_EQ(Stats().slots_building, 1u);

  gate.open = true;
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  ASSERT_EQ(Acquire(slot, &plan).status, SINTER_OK);
  EXPECT_EQ(sinter_plan_get_bucket(plan.get()), 32);
  EXPECT_EQ(Stats().slots_building, 0u);
  EXPECT_EQ(Stats().slot_upgrades, 1u);
  EXPECT_EQ(Stats().slot_failures, 0u);
  EXPECT_EQ(gate.entered, 1);  // the look-up of the create is not the build's progress
}

TEST_F(SlotAbi, AHitIsCurrentAtOnceAndStartsNoBuild) {
  const PlanPtr owned = Made<PlanPtr>(sinter_prepare, context.get(), chain.get(), 20, nullptr);
  PlanPtr plan;
  const SlotPtr slot = Slot();
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  ASSERT_EQ(Acquire(slot, &plan).status, SINTER_OK);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  EXPECT_EQ(DigestOf(owned), DigestOf(plan));
  EXPECT_EQ(Stats().searched, 1u);
  EXPECT_EQ(Stats().slot_upgrades, 0u);
  EXPECT_EQ(Switch(slot).message, "the slot was created without SINTER_SLOT_MANUAL");
}

TEST_F(SlotAbi, WhatWasTakenStaysAsItWas) {
  PlanPtr plan;
  SlotPtr slot = Slot();
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  ASSERT_EQ(Acquire(slot, &plan).status, SINTER_OK);
  slot.reset();
  chain.reset();
  context.reset();
  EXPECT_EQ(sinter_plan_get_buffer_count(plan.get()), 4u);
}

TEST_F(SlotAbi, WithManualAPlanWaitsForTheSwitch) {
  for (const bool hit : {false, true}) {  // the second slot's plan lives
    PlanPtr plan;
    const SlotPtr kept = Slot();
    if (hit) {
      EXPECT_EQ(AwaitBuild(kept).status, SINTER_OK);
    }
    Gate gate{.open = hit};
    const sinter_prepare_options options = gate.Options();
    const SlotPtr slot = Slot(&options, SINTER_SLOT_MANUAL, hit ? 20 : 200);
    if (!hit) {
      EXPECT_EQ(Switch(slot).status, SINTER_NOT_FOUND);
      EXPECT_EQ(sinter_slot_get_generation(slot.get()), 0u);
    }
    gate.open = true;
    EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
    EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
    const Result waits = Acquire(slot, &plan);
    EXPECT_TRUE(Fails(waits, SINTER_NOT_FOUND, "waits for sinter_slot_switch"));
    const uint64_t upgrades = Stats().slot_upgrades;
    EXPECT_EQ(Switch(slot).status, SINTER_OK);
    EXPECT_EQ(Switch(slot).status, SINTER_OK);
    EXPECT_EQ(Stats().slot_upgrades, upgrades + 1);
    EXPECT_EQ(Acquire(slot, &plan).status, SINTER_OK);
  }
}

TEST_F(SlotAbi, AFailureIsKeptAndNotTriedAgain) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  PlanPtr plan;
  const SlotPtr slot = Slot(&options);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_ERROR_CACHE_MISS);
  const uint64_t prepares = Stats().prepares;
  for (int i = 0; i < 3; ++i) {
    const Result failed = Acquire(slot, &plan);
    EXPECT_EQ(failed.status, SINTER_ERROR_CACHE_MISS);
    EXPECT_EQ(failed.code, SINTER_ERROR_CACHE_MISS);
    EXPECT_THAT(failed.message, HasSubstr("is not in the cache"));
  }
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 0u);
  EXPECT_EQ(Switch(slot).status, SINTER_FAILED_PRECONDITION);
  EXPECT_EQ(Stats().prepares, prepares);
  EXPECT_EQ(Stats().slot_failures, 1u);
  EXPECT_EQ(Stats().slots_building, 0u);
}

TEST_F(SlotAbi, BadArgumentsAreNamedAtOnce) {
  SlotPtr slot;
  EXPECT_THAT(Create(&slot, nullptr, 2).message, HasSubstr("slot.flags is 0x2"));
  EXPECT_EQ(Create(&slot, nullptr, 0, -5).message, "m is -5, must be >= 0");
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_NO_BUILD});
  EXPECT_THAT(Create(&slot, &options).message, HasSubstr("a slot builds"));
  const ChainPtr open = EmptyChain();
  sinter_slot* none = nullptr;
  EXPECT_EQ(sinter_slot_create(context.get(), open.get(), 1, nullptr, 0, &none, nullptr),
            SINTER_FAILED_PRECONDITION);
  EXPECT_EQ(none, nullptr);
}

TEST_F(SlotAbi, AReleaseEndsTheBuildUnlessAnotherHoldsIt) {
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  SlotPtr first = Slot(&options);
  PendingPtr build = Made<PendingPtr>(sinter_slot_get_build, first.get());
  first.reset();  // does not wait: the build has another holder
  EXPECT_EQ(sinter_pending_poll(build.get()), 0);
  gate.open = true;
  EXPECT_NE(Made<PlanPtr>(sinter_pending_get, build.get(), -1), nullptr);
  build.reset();

  chain = FromText("gemm_chain m=M n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16");
  SlotPtr second = Slot(nullptr, 0, 128);
  const ContextPtr kept = std::move(context);
  context = MakeTarget();
  second.reset();  // cancels and waits
  context = MakeTarget();
  const sinter_stats stats = StatsOf(kept);
  EXPECT_EQ(stats.slots_building, 0u);
  EXPECT_EQ(stats.slot_failures, 0u);
}

TEST_F(SlotAbi, ABuildRunsAtLowPriorityAndItsCallerDoesNot) {
  const int before = getpriority(PRIO_PROCESS, 0);
  Gate gate{.open = true};
  const sinter_prepare_options options = gate.Options();
  const SlotPtr slot = Slot(&options);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  EXPECT_GE(gate.nice, 10);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
}

TEST_F(SlotAbi, NoMoreBuildsThanThreadsRunAtOnce) {
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  std::vector<SlotPtr> slots(6);
  const int64_t ms[] = {1, 8, 16, 32, 48, 64};
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = Slot(&options, 0, ms[i]);
  EXPECT_EQ(Stats().slots_building, slots.size());
  while (gate.entered < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(gate.entered, 2);
  slots[5].reset();  // a build that is queued ends without its turn
  EXPECT_EQ(gate.entered, 2);
  gate.open = true;
  for (size_t i = 0; i + 1 < slots.size(); ++i) EXPECT_EQ(AwaitBuild(slots[i]).status, SINTER_OK);
  EXPECT_EQ(gate.entered, 5);
}

int Threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    count += task.exists();
  }
  return count;
}

TEST_F(SlotAbi, BuildsThatWaitAreEntriesNotThreads) {
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  const int before = Threads();
  std::vector<SlotPtr> slots(1500);
  for (SlotPtr& slot : slots) slot = Slot(&options);
  EXPECT_LE(Threads(), before + 4);
  EXPECT_EQ(Stats().slots_building, slots.size());
  while (gate.entered < 2) std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  while (slots.size() > 2) slots.pop_back();  // the first two are being built
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(Stats().slots_building, 2u);
  EXPECT_EQ(gate.entered, 2);
  gate.open = true;
  for (const SlotPtr& slot : slots) EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
}

TEST_F(SlotAbi, ABuildThatWaitsEndsByItsDeadlineAndByACancel) {
  Gate gate;
  sinter_prepare_options options = gate.Options();
  const SlotPtr busy[] = {Slot(&options), Slot(&options)};
  while (gate.entered < 2) std::this_thread::yield();
  sinter_cancel* cancel = nullptr;
  Ok(sinter_cancel_create, &cancel);
  const Clock::time_point start = Clock::now();
  options.deadline_us = 100 * 1000;
  const SlotPtr late = Slot(&options);
  ExpectEndsWithoutATurn(late, SINTER_DEADLINE_EXCEEDED, kTooLate);
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(600));
  options.deadline_us = 0;
  options.cancel = cancel;
  const SlotPtr cancelled = Slot(&options);
  sinter_cancel_request(cancel);
  ExpectEndsWithoutATurn(cancelled, SINTER_CANCELLED, "prepare: cancelled before its turn");
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(1100));
  gate.open = true;
  for (const SlotPtr& slot : busy) EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  sinter_cancel_release(cancel);
}

// By the thread that ends what waits, which must not wait for itself.
TEST_F(SlotAbi, ACallMayReleaseTheLastOfABuildThatNeverHadItsTurn) {
  struct Last {
    SlotPtr slot;
    PendingPtr build;
    std::atomic<sinter_status> status{-1};
    static void Callback(uintptr_t user, const sinter_pending*, sinter_status status) {
      auto* last = reinterpret_cast<Last*>(user);
      last->slot.reset();
      last->build.reset();
      last->status = status;
    }
  } last;
  Gate gate;
  sinter_prepare_options options = gate.Options();
  const SlotPtr busy[] = {Slot(&options), Slot(&options)};
  while (gate.entered < 2) std::this_thread::yield();
  options.deadline_us = 100 * 1000;
  last.slot = Slot(&options);
  last.build = Made<PendingPtr>(sinter_slot_get_build, last.slot.get());
  Ok(sinter_pending_on_ready, last.build.get(), Last::Callback, reinterpret_cast<uintptr_t>(&last));
  const Clock::time_point end = Clock::now() + kNoTurn;
  while (last.status == -1 && Clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(last.status, SINTER_DEADLINE_EXCEEDED);
  const SlotPtr next = Slot(&options);
  ExpectEndsWithoutATurn(next, SINTER_DEADLINE_EXCEEDED, kTooLate);  // its thread is still there
  gate.open = true;
  for (const SlotPtr& slot : busy) EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
}

TEST_F(SlotAbi, ThreadsTakeThePlanWhileItComes) {
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  const SlotPtr slot = Slot(&options);
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int left = 100; left > 0;) {
        const bool there = sinter_slot_get_generation(slot.get()) == 2;
        sinter_plan* plan = nullptr;
        const sinter_status status = sinter_slot_acquire(slot.get(), &plan, nullptr);
        EXPECT_EQ(status == SINTER_OK, plan != nullptr);
        EXPECT_TRUE(!there || plan != nullptr);  // a visible generation has its plan
        if (plan == nullptr) {
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          continue;
        }
        EXPECT_EQ(sinter_plan_get_bucket(plan), 32);
        sinter_plan_release(plan);
        ++taken;
        --left;
      }
    });
  }
  gate.open = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 400);
}

TEST_F(SlotAbi, TheChildOfAForkKeepsAPlanAndDoesNotWaitForABuild) {
  SlotPtr ready = Slot();
  EXPECT_EQ(AwaitBuild(ready).status, SINTER_OK);
  Gate gate;
  const sinter_prepare_options options = gate.Options();
  SlotPtr building = Slot(&options, 0, 200);
  while (gate.entered < 1) std::this_thread::yield();
  const int end = EndOfChild([&] {
    sinter_plan* plan = nullptr;
    bool fine = sinter_slot_acquire(ready.get(), &plan, nullptr) == SINTER_OK;
    fine &= sinter_plan_get_bucket(plan) == 32;
    sinter_plan_release(plan);
    fine &= sinter_slot_acquire(building.get(), &plan, nullptr) == SINTER_FAILED_PRECONDITION;
    fine &= sinter_slot_get_generation(building.get()) == 0;
    building.reset();
    ready.reset();
#ifndef __SANITIZE_THREAD__        // it ends a child that starts a thread
    sinter_slot* fresh = nullptr;  // the parent's build holds no turn here
    fine &= sinter_slot_create(context.get(), chain.get(), 400, nullptr, 0, &fresh, nullptr) ==
            SINTER_OK;
    sinter_pending* build = nullptr;
    fine &= sinter_slot_get_build(fresh, &build, nullptr) == SINTER_OK;
    fine &= sinter_pending_get(build, -1, &plan, nullptr) == SINTER_OK;
#endif
    return fine ? 0 : 1;
  });
  EXPECT_EQ(end, 0);
  gate.open = true;
}

struct Told {
  std::mutex mutex;
  std::vector<sinter_x_event> events;
  std::string subjects;
  static void Callback(uintptr_t user, const sinter_x_event* event) {
    auto* told = reinterpret_cast<Told*>(user);
    const std::lock_guard<std::mutex> lock(told->mutex);
    told->events.push_back(*event);
    told->subjects += std::string(event->subject) + "\n";
  }
};

TEST_F(SlotAbi, EventsTellOfTheBuildAndTheUpgrade) {
  Told told;
  const auto listen = [&](sinter_x_event_callback callback) {
    return Try(sinter_x_context_on_event, context.get(), callback,
               reinterpret_cast<uintptr_t>(&told));
  };
  EXPECT_EQ(listen(nullptr).message, "callback is null");
  EXPECT_EQ(listen(Told::Callback).status, SINTER_OK);
  EXPECT_EQ(listen(Told::Callback).status, SINTER_ALREADY_EXISTS);
  PlanPtr plan;
  const SlotPtr slot = Slot();
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  ASSERT_EQ(Acquire(slot, &plan).status, SINTER_OK);
  const Digest digest = DigestOf(plan), of_chain = DigestOf(chain.get());
  const std::lock_guard<std::mutex> lock(told.mutex);
  const auto count = [&](sinter_x_event_kind kind) {
    return std::count_if(told.events.begin(), told.events.end(),
                         [&](const sinter_x_event& event) { return event.kind == kind; });
  };
  EXPECT_GE(count(SINTER_X_EVENT_LOOK_UP), 2);
  EXPECT_EQ(count(SINTER_X_EVENT_SEARCH), 1);
  EXPECT_GE(count(SINTER_X_EVENT_COMPILE), 1);
  EXPECT_EQ(count(SINTER_X_EVENT_LOAD), 0);  // no GPU
  EXPECT_EQ(count(SINTER_X_EVENT_UPGRADE), 1);
  for (const sinter_x_event& event : told.events) {
    EXPECT_EQ(event.struct_size, sizeof(event));
    EXPECT_EQ(event.bucket, 32);
    if (event.kind != SINTER_X_EVENT_UPGRADE) {
      EXPECT_EQ(std::memcmp(event.chain_digest, of_chain.data(), 32), 0);
    } else {
      EXPECT_EQ(std::memcmp(event.plan_digest, digest.data(), 32), 0);
    }
  }
}

TEST_F(SlotAbi, AFailureIsLoggedAndCountedAmongTheMetrics) {
  Messages log;
  const auto options =
      Sized(sinter_context_options{.target = "h200",
                                   .cache_dir = "",
                                   .must_hit = SINTER_SWITCH_ON,
                                   .log = Messages::Callback,
                                   .log_user_data = reinterpret_cast<uintptr_t>(&log)});
  context = Made<ContextPtr>(sinter_context_create, &options);
  SlotPtr slot = Slot();
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_ERROR_CACHE_MISS);
  {
    const std::lock_guard<std::mutex> lock(log.mutex);
    EXPECT_THAT(log.all, HasSubstr("slot: the background build failed: "));
  }
  std::string text(1 << 16, '\0');
  size_t required = 0;
  Ok(sinter_context_write_metrics, context.get(), text.size(), text.data(), &required);
  EXPECT_THAT(text, HasSubstr("\nsinter_slot_failures_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nsinter_slots_building 0\n"));
  slot.reset();
  context.reset();
}

}  // namespace
}  // namespace sinter_test
