#include <sched.h>

#include "src/capi/objects.h"
#include "tests/capi/abi.h"
#include "tests/unit/engine/fakes.h"

namespace sinter_test {
namespace {

// A slot that measures what prediction chose, over an engine whose GPU is a fake.

using sinter::testing::FakeWorld;

std::string DataflowOf(const PlanPtr& plan) {
  return std::string(NameOf(ProductOf(plan->prepared->plan().kernels[0].spec).schedule.dataflow));
}
std::string DataflowOf(const SlotPtr& slot) {
  return DataflowOf(Made<PlanPtr>(sinter_slot_acquire, slot.get()));
}

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
    SlotPtr slot =
        Made<SlotPtr>(sinter_slot_create, context_.get(), chain_.get(), 16, &options, flags);
    EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
    return slot;
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
  EXPECT_EQ(EndOfChild([&] {
              const bool has = DataflowOf(slot) == "grid-exchange";
              slot.reset();
              return has ? 0 : 1;
            }),
            0);
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

// Slots over an engine that has stand-ins: generation 1, then the plan that was built.

class StandInSlots : public testing::Test {
 protected:
  void SetUp() override {
    world_.compute = false;
    sinter::PlanningHooks hooks{.plan = sinter::PlanChain};
    hooks.generate = [](const sinter::KernelSpec& spec, const sinter::DeviceModel& model) {
      return sinter::Generate(spec, model);
    };
    hooks.device_headers = [](const sinter::KernelSpec&) { return sinter::Digest(); };
    sinter::Ports ports = world_.MakePorts();
    ports.stand_ins = [](absl::string_view name) { return name; };
    context_.reset(new sinter_context);
    context_->config.stand_ins = true;
    context_->engine =
        sinter::CreateEngine(std::move(ports), context_->config, sinter::LogSink(), hooks);
    context_->builds = std::make_shared<sinter::capi::BuildQueue>(1);
  }

  SlotPtr Create(uint32_t flags) {
    return Made<SlotPtr>(sinter_slot_create, context_.get(), chain_.get(), 20, nullptr, flags);
  }
  bool StandsIn(const SlotPtr& slot) {
    const PlanPtr owned = Made<PlanPtr>(sinter_slot_acquire, slot.get());
    return owned.get()->prepared->plan().IsStandIn();
  }

  sinter::testing::FakeWorld world_;
  ContextPtr context_;
  ChainPtr chain_ = FromText("gemm_chain m=M n=256 k=128 l=64 act=relu layout=oi dtype=bf16");
};

TEST_F(StandInSlots, HaveThemAtOnceAndThenThePlan) {
  world_.compile_ms = 50;
  const SlotPtr slot = Create(0);
  EXPECT_TRUE(StandsIn(slot));
  EXPECT_GE(sinter_slot_get_generation(slot.get()), 1u);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_FALSE(StandsIn(slot));
}

TEST_F(StandInSlots, KeepThemUntilASwitchOfAManualSlot) {
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  EXPECT_TRUE(StandsIn(slot));
  Ok(sinter_slot_switch, slot.get());
  EXPECT_FALSE(StandsIn(slot));
}

TEST_F(StandInSlots, KeepThemWhereNothingCanBeBuilt) {
  world_.has_compiler = false;
  const SlotPtr slot = Create(0);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_UNAVAILABLE);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 1u);
  EXPECT_TRUE(StandsIn(slot));
}

// On one processor the thread that was notified of the end runs before the build's thread goes on.
// Whatever that thread still holds would therefore be seen here.
TEST_F(StandInSlots, ReleaseTheEngineOnceTheCallerHasReleasedAll) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const std::weak_ptr<sinter::Engine> engine = context_->engine;
  SlotPtr slot = Create(0);
  EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
  slot.reset();
  context_.reset();
  EXPECT_TRUE(engine.expired());
  EXPECT_EQ(world_.loaded, 0);
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

// A slot that is offered what tuning found, over an engine whose GPU is a fake: the graph of before
// keeps its plan, and the slot lets it go.

class TunedSlot : public testing::Test {
 protected:
  void SetUp() override {
    world_.times = {{"grid", 11}, {"cluster", 8}, {"first", 10}, {"second", 10}};
    context_ = ContextOn(world_);
    chain_.reset(sinter::capi::NewFinishedChain(world_.chain));
  }
  static ContextPtr ContextOn(FakeWorld& world) {
    auto* const context = new sinter_context;
    context->engine = world.MakeEngine();
    context->builds = std::make_shared<sinter::capi::BuildQueue>(1);
    return ContextPtr(context);
  }
  SlotPtr Create() {
    SlotPtr slot = Made<SlotPtr>(sinter_slot_create, context_.get(), chain_.get(), 16, nullptr, 0);
    EXPECT_EQ(AwaitBuild(slot).status, SINTER_OK);
    return slot;
  }
  static PlanPtr Acquire(const SlotPtr& slot) {
    return Made<PlanPtr>(sinter_slot_acquire, slot.get());
  }
  // What another context prepares that reads the set of this tuning.
  PlanPtr Tuned() {
    auto set = std::make_shared<sinter::TuningSet>();
    set->Add(*context_->engine->Tune(world_.chain, 16, {})->entry);
    world_.tuning = set;
    const ContextPtr tuned = ContextOn(world_);
    return Made<PlanPtr>(sinter_prepare, tuned.get(), chain_.get(), 16, nullptr);
  }

  FakeWorld world_;
  ContextPtr context_;
  ChainPtr chain_;
};

TEST_F(TunedSlot, TakesTheMeasuredChoiceAndAGraphKeepsItsOwn) {
  SlotPtr slot = Create();
  PlanPtr before = Acquire(slot);
  EXPECT_EQ(DataflowOf(before), "grid-exchange");
  const std::weak_ptr<const sinter::PreparedPlan> old = before->prepared;

  const sinter::testing::FakeBuffers buffers({1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20});
  const std::vector<sinter::DevicePtr>& at = buffers.pointers();
  auto binding = before->prepared->Bind({at[0], at[1], at[2], at[3]}, at[4]).value();
  world_.capturing = true;
  ASSERT_TRUE(before->prepared->Launch(*binding, nullptr, 16, false).ok());
  world_.capturing = false;
  ASSERT_EQ(world_.graph.size(), 1u);
  const std::weak_ptr<const void> captured = world_.graph[0];

  PlanPtr better = Tuned();
  EXPECT_EQ(DataflowOf(better), "cluster-exchange");
  Ok(sinter_slot_offer, slot.get(), better.get());
  EXPECT_EQ(DataflowOf(Acquire(slot)), "cluster-exchange");
  EXPECT_TRUE(before->prepared->Launch(*binding, nullptr, 16, false).ok());  // still bound

  before.reset();
  binding.reset();
  slot.reset();
  context_.reset();
  EXPECT_TRUE(old.expired());
  EXPECT_FALSE(captured.expired());
  world_.graph.clear();
  EXPECT_TRUE(captured.expired());
}

TEST_F(TunedSlot, LetsAnOldPlanGoWhenTheNextComes) {
  const SlotPtr slot = Create();
  std::weak_ptr<const sinter::PreparedPlan> offered;
  {
    const PlanPtr first = Tuned();
    offered = first->prepared;
    Ok(sinter_slot_offer, slot.get(), first.get());
  }
  EXPECT_FALSE(offered.expired());
  const PlanPtr second = Tuned();
  Ok(sinter_slot_offer, slot.get(), second.get());
  EXPECT_TRUE(offered.expired());
}

TEST_F(TunedSlot, RefusesAPlanWhoseInputsAreInAnotherOrder) {
  const SlotPtr slot = Create();
  const ChainPtr turned(sinter::capi::NewFinishedChain(sinter::testing::TestChainInOtherOrder()));
  const PlanPtr owned = Made<PlanPtr>(sinter_prepare, context_.get(), turned.get(), 16, nullptr);
  const Result refused = Try(sinter_slot_offer, slot.get(), owned.get());
  EXPECT_EQ(refused.status, SINTER_INVALID_ARGUMENT);
  EXPECT_THAT(refused.message, testing::HasSubstr("order of inputs"));
}

TEST_F(TunedSlot, RefusesAPlanOfAnotherDevice) {
  const SlotPtr slot = Create();
  FakeWorld without{.has_gpu = false};
  const ContextPtr other = ContextOn(without);
  const PlanPtr owned = Made<PlanPtr>(sinter_prepare, other.get(), chain_.get(), 16, nullptr);
  const Result refused = Try(sinter_slot_offer, slot.get(), owned.get());
  EXPECT_THAT(refused.message, testing::HasSubstr("the plan's device is none"));
}

}  // namespace
}  // namespace sinter_test
