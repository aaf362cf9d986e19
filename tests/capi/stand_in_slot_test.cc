// Slots over an engine that has stand-ins: generation 1, then the plan that was built.

#include <sched.h>

#include "src/capi/objects.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "tests/capi/abi.h"
#include "tests/unit/engine/fakes.h"

namespace sinter_test {
namespace {

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
  sinter_status Await(const SlotPtr& slot) {
    const PendingPtr owned = Made<PendingPtr>(sinter_slot_get_build, slot.get());
    sinter_plan* plan = nullptr;
    const Result result = Try(sinter_pending_get, owned.get(), -1, &plan);
    sinter_plan_release(plan);
    return result.status;
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
  EXPECT_EQ(Await(slot), SINTER_OK);
  EXPECT_EQ(sinter_slot_get_generation(slot.get()), 2u);
  EXPECT_FALSE(StandsIn(slot));
}

TEST_F(StandInSlots, KeepThemUntilASwitchOfAManualSlot) {
  const SlotPtr slot = Create(SINTER_SLOT_MANUAL);
  EXPECT_EQ(Await(slot), SINTER_OK);
  EXPECT_TRUE(StandsIn(slot));
  Ok(sinter_slot_switch, slot.get());
  EXPECT_FALSE(StandsIn(slot));
}

TEST_F(StandInSlots, KeepThemWhereNothingCanBeBuilt) {
  world_.has_compiler = false;
  const SlotPtr slot = Create(0);
  EXPECT_EQ(Await(slot), SINTER_UNAVAILABLE);
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
  EXPECT_EQ(Await(slot), SINTER_OK);
  slot.reset();
  context_.reset();
  EXPECT_TRUE(engine.expired());
  EXPECT_EQ(world_.loaded, 0);
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace sinter_test
