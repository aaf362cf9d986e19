// sinter_slot_offer: plans of another tuning set, refusals, manual switches, threads, forks.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

class SlotOffer : public testing::Test {
 protected:
  void SetUp() override {
    PlanPtr plan;
    const Result result = Prepare(context, chain, 20, &plan);
    if (result.status == SINTER_UNAVAILABLE) SINTER_END_WITHOUT_COMPILER(result.message);
    ASSERT_EQ(result.status, SINTER_OK) << result.message;
  }

  // With a set that has no entry: a plan's digest is then another one.
  ContextPtr MakeTuned() {
    const std::string path = folder.path() + "/empty.tuning";
    const TuningSetPtr set = Made<TuningSetPtr>(sinter_tuning_set_create);
    Ok(sinter_tuning_set_write, set.get(), path.c_str());
    const auto options = Sized(sinter_context_options{.log_level = SINTER_LOG_OFF,
                                                      .target = "h200",
                                                      .cache_dir = folder.path().c_str(),
                                                      .tuning_set = path.c_str()});
    return Made<ContextPtr>(sinter_context_create, &options);
  }
  static Result Prepare(const ContextPtr& in, const ChainPtr& of, int64_t m, PlanPtr* out,
                        const sinter_prepare_options* options = nullptr) {
    return TryMake(out, sinter_prepare, in.get(), of.get(), m, options);
  }
  PlanPtr Prepared(const ContextPtr& in, int64_t m = 20) {
    PlanPtr plan;
    EXPECT_EQ(Prepare(in, chain, m, &plan).status, SINTER_OK);
    return plan;
  }
  SlotPtr Create(uint32_t flags = 0, const sinter_prepare_options* options = nullptr,
                 int64_t m = 20) {
    return Made<SlotPtr>(sinter_slot_create, context.get(), chain.get(), m, options, flags);
  }
  static Result Offer(const SlotPtr& slot, const PlanPtr& plan) {
    return Try(sinter_slot_offer, slot.get(), plan.get());
  }
  static PlanPtr Acquire(const SlotPtr& slot) {
    return Made<PlanPtr>(sinter_slot_acquire, slot.get());
  }
  uint64_t Upgrades() { return StatsOf(context).slot_upgrades; }

  ScratchFolder folder;
  ContextPtr context = MakeTarget(folder.path().c_str());
  ChainPtr chain = FromText(kSmall);
};

TEST_F(SlotOffer, TheOfferedPlanIsCurrentAndWhatWasTakenStays) {
  const SlotPtr slot = Create();
  AwaitBuild(slot);
  const PlanPtr before = Acquire(slot);
  const Digest digest = DigestOf(before);
  const uint64_t upgrades = Upgrades();
  PlanPtr better = Prepared(MakeTuned());
  const Digest of_better = DigestOf(better);
  ASSERT_NE(of_better, digest);
  EXPECT_EQ(Offer(slot, better).status, SINTER_OK);
  better.reset();  // the slot has a reference of its own
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 3u);
  EXPECT_EQ(DigestOf(Acquire(slot)), of_better);
  EXPECT_EQ(Upgrades(), upgrades + 1);
  EXPECT_EQ(DigestOf(before), digest);
  EXPECT_EQ(Offer(slot, before).status, SINTER_OK);  // and back
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 4u);
  EXPECT_EQ(DigestOf(Acquire(slot)), digest);
}

TEST_F(SlotOffer, OfAManualSlotItWaitsForTheSwitch) {
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL);
  AwaitBuild(slot);
  Ok(sinter_slot_switch, slot.get());
  const Digest digest = DigestOf(Acquire(slot));
  const PlanPtr better = Prepared(MakeTuned());
  const uint64_t upgrades = Upgrades();
  EXPECT_EQ(Offer(slot, better).status, SINTER_OK);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 3u);
  EXPECT_EQ(DigestOf(Acquire(slot)), digest);
  EXPECT_EQ(Upgrades(), upgrades);
  Ok(sinter_slot_switch, slot.get());
  Ok(sinter_slot_switch, slot.get());
  EXPECT_EQ(DigestOf(Acquire(slot)), DigestOf(better));
  EXPECT_EQ(Upgrades(), upgrades + 1);
}

TEST_F(SlotOffer, APlanForSomethingElseIsRefusedByName) {
  const SlotPtr slot = Create();
  AwaitBuild(slot);
  const Digest digest = DigestOf(Acquire(slot));
  const Result of_bucket = Offer(slot, Prepared(context, 200));
  EXPECT_EQ(of_bucket.status, SINTER_INVALID_ARGUMENT);
  EXPECT_EQ(of_bucket.message, "the plan's bucket is 200, must be 32");
  const ContextPtr h100 = MakeTarget("", "h100");
  EXPECT_THAT(Offer(slot, Prepared(h100)).message, HasSubstr("the plan's device is none (target"));
  PlanPtr other;
  const ChainPtr wider = FromText("gemm_chain m=M n=256 k=128 l=64 act=relu layout=oi dtype=bf16");
  ASSERT_EQ(Prepare(context, wider, 20, &other).status, SINTER_OK);
  EXPECT_THAT(Offer(slot, other).message, HasSubstr("the plan's chain is "));
  EXPECT_EQ(Offer(slot, nullptr).message, "plan is null");
  EXPECT_EQ(Offer(nullptr, other).message, "slot is null");
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_EQ(DigestOf(Acquire(slot)), digest);
}

TEST_F(SlotOffer, ABatchInvariantSlotTakesNoOtherPlan) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_BATCH_INVARIANT});
  const SlotPtr slot = Create(0, &options);
  AwaitBuild(slot);
  EXPECT_EQ(Offer(slot, Prepared(context)).message,
            "the plan's batch_invariant is false, must be true");
  PlanPtr invariant;
  ASSERT_EQ(Prepare(MakeTuned(), chain, 20, &invariant, &options).status, SINTER_OK);
  EXPECT_EQ(Offer(slot, invariant).status, SINTER_OK);
  const SlotPtr any = Create();
  AwaitBuild(any);
  EXPECT_EQ(Offer(any, invariant).status, SINTER_OK);
}

TEST_F(SlotOffer, ABuildUnderWayComesFirstAndAFailedOneIsMadeGood) {
  std::atomic<bool> open{false};
  auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  options.progress = [](uintptr_t gate, const char*, double) {
    while (!*reinterpret_cast<std::atomic<bool>*>(gate)) std::this_thread::yield();
  };
  options.progress_user_data = reinterpret_cast<uintptr_t>(&open);
  const SlotPtr slot = Create(0, &options, 200);
  const PlanPtr better = Prepared(MakeTuned(), 200);
  EXPECT_TRUE(
      Fails(Offer(slot, better), SINTER_FAILED_PRECONDITION, "the slot's build is under way"));
  open = true;
  AwaitBuild(slot);
  sinter_plan* none = nullptr;
  EXPECT_EQ(sinter_slot_acquire(slot.get(), &none, nullptr), SINTER_ERROR_CACHE_MISS);
  EXPECT_EQ(Offer(slot, better).status, SINTER_OK);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_EQ(DigestOf(Acquire(slot)), DigestOf(better));
}

TEST_F(SlotOffer, APlanThatWaitsForTheSwitchComesBeforeTheFailureOfTheBuild) {
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL, &options, 200);
  AwaitBuild(slot);
  sinter_plan* none = nullptr;
  EXPECT_EQ(sinter_slot_acquire(slot.get(), &none, nullptr), SINTER_ERROR_CACHE_MISS);
  const PlanPtr better = Prepared(MakeTuned(), 200);
  EXPECT_EQ(Offer(slot, better).status, SINTER_OK);
  const Result waits = Try(sinter_slot_acquire, slot.get(), &none);
  EXPECT_TRUE(Fails(waits, SINTER_NOT_FOUND, "waits for sinter_slot_switch"));
  Ok(sinter_slot_switch, slot.get());
  EXPECT_EQ(DigestOf(Acquire(slot)), DigestOf(better));
}

TEST_F(SlotOffer, ThreadsTakePlansWhileOthersAreOffered) {
  const SlotPtr slot = Create();
  AwaitBuild(slot);
  const PlanPtr a = Acquire(slot), b = Prepared(MakeTuned());
  std::atomic<bool> stop{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      uint64_t last = 2;
      while (!stop) {
        const uint64_t generation = sinter_slot_get_generation(slot.get());
        EXPECT_GE(generation, last);
        last = generation;
        sinter_plan* plan = nullptr;
        EXPECT_EQ(sinter_slot_acquire(slot.get(), &plan, nullptr), SINTER_OK);
        EXPECT_TRUE(plan == a.get() || plan == b.get());
        sinter_plan_release(plan);
        ++taken;
      }
    });
  }
  for (int i = 0; i < 200 || taken < 100; ++i) {
    EXPECT_EQ(Offer(slot, i % 2 == 0 ? b : a).status, SINTER_OK);
    if (i % 16 == 0) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SlotOffer, TheChildOfAForkIsOfferedNothing) {
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL);
  AwaitBuild(slot);
  const PlanPtr better = Prepared(MakeTuned());
  const int end = EndOfChild([&] {
    bool fine = sinter_slot_offer(slot.get(), better.get(), nullptr) == SINTER_FAILED_PRECONDITION;
    fine &= sinter_slot_switch(slot.get(), nullptr) == SINTER_OK;
    sinter_plan* plan = nullptr;
    fine &= sinter_slot_acquire(slot.get(), &plan, nullptr) == SINTER_OK;
    sinter_plan_release(plan);
    return fine ? 0 : 1;
  });
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace sinter_test
