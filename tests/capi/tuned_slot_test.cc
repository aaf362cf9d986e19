// A slot that is offered what tuning found, over an engine whose GPU is a fake: the graph of before
// keeps its plan, and the slot lets it go.
#include "src/capi/objects.h"
#include "src/plan/plan.h"
#include "tests/capi/abi.h"
#include "tests/unit/engine/fakes.h"

namespace sinter_test {
namespace {

using sinter::testing::FakeWorld;

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
    sinter_slot* slot = nullptr;
    Ok(sinter_slot_create, context_.get(), chain_.get(), 16, nullptr, 0, &slot);
    const PendingPtr owned = Made<PendingPtr>(sinter_slot_get_build, slot);
    sinter_plan* plan = nullptr;
    Ok(sinter_pending_get, owned.get(), -1, &plan);
    sinter_plan_release(plan);
    return SlotPtr(slot);
  }
  static PlanPtr Acquire(const SlotPtr& slot) {
    return Made<PlanPtr>(sinter_slot_acquire, slot.get());
  }
  static std::string DataflowOf(const PlanPtr& plan) {
    return std::string(NameOf(ProductOf(plan->prepared->plan().kernels[0].spec).schedule.dataflow));
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
