#include "src/capi/slot_plans.h"

#include <algorithm>

#include "src/capi/objects.h"

namespace sinter::capi {

SlotPlans::SlotPlans(bool manual) : manual_(manual) {
  held_.Lock()->reserve(2);  // a stand-in and the plan that is built
}

SlotPlans::~SlotPlans() {
  const auto held = held_.Lock();
  for (sinter_plan* plan : *held) ReleaseHandle(plan);
}

sinter_plan* SlotPlans::Acquire() const {
  ++readers_;
  sinter_plan* const plan = current_;
  RetainHandle(plan);
  --readers_;
  return plan;
}

void SlotPlans::AddStandIn(sinter_plan* plan) {
  const auto held = held_.Lock();
  held->push_back(plan);
  RetainHandle(plan);
  current_ = plan;
  generation_ = kStandIn;
}

void SlotPlans::Add(sinter_plan* plan) {
  {
    const auto held = held_.Lock();
    held->push_back(plan);
    RetainHandle(plan);
    newest_ = plan;
    if (!manual_) current_ = plan;
    generation_ = std::max(kFinal, generation_ + 1);
  }
  LetOldOnesGo();
}

sinter_plan* SlotPlans::Switch() {
  sinter_plan* switched = nullptr;
  {
    const auto held = held_.Lock();
    sinter_plan* const newest = newest_;
    if (newest != nullptr && current_.exchange(newest) != newest) switched = newest;
    RetainHandle(switched);
  }
  LetOldOnesGo();
  return switched;
}

// Releases outside of the lock: a last release unloads kernels.
void SlotPlans::LetOldOnesGo() {
  while (sinter_plan* const old = TakeOldOne()) ReleaseHandle(old);
}

// current_ stands while the lock is held, so who comes after the look at readers_ gets that plan.
sinter_plan* SlotPlans::TakeOldOne() {
  const auto held = held_.Lock();
  if (readers_ != 0) return nullptr;
  const auto old = std::find_if(held->begin(), held->end(), [this](sinter_plan* plan) {
    return plan != current_ && plan != newest_;
  });
  if (old == held->end()) return nullptr;
  sinter_plan* const plan = *old;
  held->erase(old);
  return plan;
}

}  // namespace sinter::capi
