// A slot that measures what prediction chose, over an engine whose GPU is a fake.
#include "src/capi/objects.h"
#include "src/plan/plan.h"
#include "tests/capi/abi.h"
#include "tests/unit/engine/fakes.h"

namespace sinter_test {
namespace {

using sinter::testing::FakeWorld;

class MeasuredSlot : public testing::Test {
 protected:
  void SetUp() override {
    world_.times = {{"grid", 11}, {"cluster", 8}, {"first", 10}, {"second", 10}};
    world_.on_pause = [this] {
      paused_ = true;
      while (!may_measure_) std::this_thread::yield();
    };
    context_.reset(new sinter_context);
    context_->config.slot_measure = true;
    context_->engine = world_.MakeEngine();
    context_->builds = std::make_shared<sinter::capi::BuildQueue>(1);
    context_->measurements = std::make_shared<sinter::capi::BuildQueue>(1);
    chain_.reset(sinter::capi::NewFinishedChain(world_.chain));
  }
  // With its plan built.
  SlotPtr Create(uint32_t flags = 0, int32_t measure = 0) {
    const auto options = Sized(sinter_prepare_options{.measure = measure});
    sinter_slot* slot = nullptr;
    Ok(sinter_slot_create, context_.get(), chain_.get(), 16, &options, flags, &slot);
    const PendingPtr owned = Made<PendingPtr>(sinter_slot_get_build, slot);
    sinter_plan* plan = nullptr;
    Ok(sinter_pending_get, owned.get(), -1, &plan);
    sinter_plan_release(plan);
    return SlotPtr(slot);
  }
  static std::string DataflowOf(const SlotPtr& slot) {
    const PlanPtr owned = Made<PlanPtr>(sinter_slot_acquire, slot.get());
    return std::string(
        NameOf(ProductOf(owned.get()->prepared->plan().kernels[0].spec).schedule.dataflow));
  }
  template <typename Condition>
  static bool Await(Condition&& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return holds();
  }
  sinter_stats Stats() { return StatsOf(context_); }

  FakeWorld world_;
  std::atomic<bool> may_measure_{true}, paused_{false};
  ContextPtr context_;
  ChainPtr chain_;
};

TEST_F(MeasuredSlot, TheWinnerIsTheNextGeneration) {
  may_measure_ = false;
  const SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return paused_.load(); }));
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_EQ(DataflowOf(slot), "grid-exchange");
  EXPECT_EQ(Stats().slots_measuring, 1u);
  may_measure_ = true;
  ASSERT_TRUE(Await([&] { return sinter_slot_get_generation(slot.get()) == 3; }));
  EXPECT_EQ(DataflowOf(slot), "cluster-exchange");
  EXPECT_EQ(Stats().slots_measuring, 0u);
  EXPECT_EQ(Stats().slot_measurements, 1u);
  EXPECT_EQ(Stats().slot_measured_wins, 1u);
  // Another slot has it from the start, and measures nothing.
  const SlotPtr second = Create();
  EXPECT_EQ(sinter_slot_get_generation(second.get()), 2u);
  EXPECT_EQ(DataflowOf(second), "cluster-exchange");
}

TEST_F(MeasuredSlot, ASlotThatAsksForItIsBuiltAtOnceAndMeasuredThen) {
  context_->config.slot_measure = false;
  may_measure_ = false;
  const SlotPtr slot = Create(0, 3);
  EXPECT_EQ(DataflowOf(slot), "grid-exchange");
  may_measure_ = true;
  ASSERT_TRUE(Await([&] { return sinter_slot_get_generation(slot.get()) == 3; }));
  EXPECT_EQ(DataflowOf(slot), "cluster-exchange");
}

TEST_F(MeasuredSlot, AManualSlotWaitsForTheSwitch) {
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL);
  Ok(sinter_slot_switch, slot.get());
  ASSERT_TRUE(Await([&] { return sinter_slot_get_generation(slot.get()) == 3; }));
  Ok(sinter_slot_switch, slot.get());
  EXPECT_EQ(DataflowOf(slot), "cluster-exchange");
}

TEST_F(MeasuredSlot, KeepsItsPlanWherePredictionStands) {
  world_.times["cluster"] = 11;
  const SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return Stats().slot_measurements == 1; }));
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_EQ(DataflowOf(slot), "grid-exchange");
}

TEST_F(MeasuredSlot, ItsReleaseEndsTheMeasuring) {
  may_measure_ = false;
  SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return paused_.load(); }));
  std::thread release([&] { slot.reset(); });
  may_measure_ = true;
  release.join();
  EXPECT_EQ(Stats().slots_measuring, 0u);
  EXPECT_EQ(world_.background_bytes, 0u);
}

TEST_F(MeasuredSlot, ItsContextMayBeReleasedMeanwhile) {
  may_measure_ = false;
  const SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return paused_.load(); }));
  context_.reset();
  may_measure_ = true;
  EXPECT_TRUE(Await([&] { return sinter_slot_get_generation(slot.get()) == 3; }));
}

TEST_F(MeasuredSlot, TheChildOfAForkLetsItGoWithoutWaiting) {
  may_measure_ = false;
  SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return paused_.load(); }));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const bool has = DataflowOf(slot) == "grid-exchange";
    slot.reset();
    _exit(has ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  may_measure_ = true;
  EXPECT_TRUE(Await([&] { return sinter_slot_get_generation(slot.get()) == 3; }));
}

TEST_F(MeasuredSlot, AnOfferedPlanStands) {
  may_measure_ = false;
  const SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return paused_.load(); }));
  const PlanPtr owned = Made<PlanPtr>(sinter_slot_acquire, slot.get());
  Ok(sinter_slot_offer, slot.get(), owned.get());
  may_measure_ = true;
  ASSERT_TRUE(Await([&] { return Stats().slot_measurements == 1; }));
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 3u);
  EXPECT_EQ(DataflowOf(slot), "grid-exchange");
}

TEST_F(MeasuredSlot, WithoutMemoryItGoesOnWithItsPlan) {
  world_.most_background_bytes = 0;
  const SlotPtr slot = Create();
  ASSERT_TRUE(Await([&] { return Stats().slot_measurements_given_up == 1; }));
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_EQ(DataflowOf(slot), "grid-exchange");
}

}  // namespace
}  // namespace sinter_test
