// SlotPlans: which plans a slot holds, and for how long, with plans that say when they are taken.
#include "src/capi/slot_plans.h"

#include "tests/support/test.h"

namespace sinter_test {
namespace {

namespace capi = sinter::capi;

struct FakePlan : capi::Handle<FakePlan> {
  static constexpr uint32_t kMagic = 0x46506c61;
  static constexpr char kTypeName[] = "FakePlan";
  explicit FakePlan(std::atomic<int>* alive) : alive(alive) { ++*alive; }
  ~FakePlan() { --*alive; }
  void Retain() const {  // what SlotPlans calls
    if (before_retain) before_retain();
    capi::Handle<FakePlan>::Retain();
  }

  std::atomic<int>* const alive;
  std::function<void()> before_retain;
};
using FakePlans = capi::SlotPlans<FakePlan>;
using FakeRef = capi::HandleRef<FakePlan>;

FakeRef NewPlan(std::atomic<int>* alive) { return FakeRef(new FakePlan(alive)); }

TEST(SlotPlans, HoldTheCurrentPlanAndTheNewest) {
  std::atomic<int> alive{0};
  {
    FakePlans plans(/*manual=*/true);
    EXPECT_EQ(plans.Acquire(), nullptr);
    for (int i = 0; i < 4; ++i) plans.Add(NewPlan(&alive).get());
    EXPECT_EQ(alive, 1) << "none is current";
    capi::ReleaseHandle(plans.Switch());
    for (int i = 0; i < 4; ++i) plans.Add(NewPlan(&alive).get());
    EXPECT_EQ(alive, 2);
    EXPECT_EQ(plans.generation(), 9u);
  }
  EXPECT_EQ(alive, 0);
}

TEST(SlotPlans, ASwitchGivesAReferenceOfItsOwn) {
  std::atomic<int> alive{0};
  FakePlans plans(/*manual=*/true);
  plans.Add(NewPlan(&alive).get());
  FakePlan* const switched = plans.Switch();
  ASSERT_NE(switched, nullptr);
  capi::ReleaseHandle(switched);
  ASSERT_EQ(alive, 1) << "the slot's reference was released";
  EXPECT_EQ(plans.Switch(), nullptr);
  EXPECT_EQ(FakeRef(plans.Acquire()).get(), switched);
  EXPECT_EQ(alive, 1);
}

// The next plan comes when a reader has seen the current one and has no reference yet.
TEST(SlotPlans, NoPlanIsReleasedWhileAReaderTakesIt) {
  std::atomic<int> alive{0};
  FakePlans plans(/*manual=*/false);
  FakePlan* const first = new FakePlan(&alive);
  plans.Add(first);
  capi::ReleaseHandle(first);
  first->before_retain = [&] {
    plans.Add(NewPlan(&alive).get());
    ASSERT_EQ(alive, 2) << "released under its reader";
  };
  FakeRef taken(plans.Acquire());
  EXPECT_EQ(taken.get(), first);
  EXPECT_NE(FakeRef(plans.Acquire()).get(), first);
  plans.Add(NewPlan(&alive).get());
  EXPECT_EQ(alive, 2) << "the reader's and the newest";
  taken.reset();
  EXPECT_EQ(alive, 1);
}

// What a sanitizer watches.
TEST(SlotPlans, ThreadsTakePlansWhileOthersAddAndSwitch) {
  constexpr int kAdded = 2000;
  for (const bool manual : {false, true}) {
    std::atomic<int> alive{0};
    std::atomic<bool> done{false};
    {
      FakePlans plans(manual);
      plans.AddStandIn(NewPlan(&alive).get());
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
          do {
            const FakeRef plan(plans.Acquire());
            EXPECT_TRUE(capi::IsLive(plan.get()));
          } while (!done);
        });
      }
      threads.emplace_back([&] {
        while (!done) {
          if (manual) capi::ReleaseHandle(plans.Switch());
          std::this_thread::yield();
        }
      });
      for (int i = 0; i < kAdded; ++i) plans.Add(NewPlan(&alive).get());
      done = true;
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(plans.generation(), kAdded + 1u);
      plans.Add(NewPlan(&alive).get());
      EXPECT_LE(alive, 2);
    }
    EXPECT_EQ(alive, 0);
  }
}

}  // namespace
}  // namespace sinter_test
