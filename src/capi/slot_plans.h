// SlotPlans: the plans of a slot. One is current; it is taken without waiting.
#ifndef SINTER_SRC_CAPI_SLOT_PLANS_H_
#define SINTER_SRC_CAPI_SLOT_PLANS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "src/base/fork_local.h"
#include "src/capi/firewall.h"

namespace sinter::capi {

// Each further plan has the next number.
constexpr uint64_t kNoGeneration = 0, kStandInGeneration = 1, kFinalGeneration = 2;

// Holds a reference to the current plan and to the newest, which are handles. An older one is
// released when the next plan comes and nobody is taking one at that moment. Thread-safe.
template <typename Plan>
class SlotPlans {
 public:
  // `manual`: a plan that is added waits for Switch.
  explicit SlotPlans(bool manual) : manual_(manual) {
    held_.Lock()->reserve(2);  // a stand-in and the plan that is built
  }
  ~SlotPlans() {
    const auto held = held_.Lock();
    for (Plan* plan : *held) ReleaseHandle(plan);
  }
  SlotPlans(const SlotPlans&) = delete;
  SlotPlans& operator=(const SlotPlans&) = delete;

  // A new reference to the current plan; null without one. Wait-free.
  Plan* Acquire() const {
    ++readers_;
    Plan* const plan = current_;
    RetainHandle(plan);
    --readers_;
    return plan;
  }

  // The newest plan's generation. Acquire then returns that plan or a later one, unless the slot is
  // manual and the plan waits for a switch.
  uint64_t generation() const { return generation_; }
  bool manual() const { return manual_; }
  // Whether Add was called.
  bool HasFinal() const { return newest_ != nullptr; }

  // Takes a reference. Before anybody sees the slot; current from then on.
  void AddStandIn(Plan* plan) {
    const auto held = held_.Lock();
    held->push_back(plan);
    RetainHandle(plan);
    current_ = plan;
    generation_ = kStandInGeneration;
  }

  // Takes a reference. The first of them allocates nothing. Not in the child of a fork.
  void Add(Plan* plan) {
    {
      const auto held = held_.Lock();
      held->push_back(plan);
      RetainHandle(plan);
      newest_ = plan;
      if (!manual_) current_ = plan;
      generation_ = std::max(kFinalGeneration, generation_ + 1);
    }
    ReleaseOldOnes();
  }

  // Makes the newest plan current: a new reference to it when it was not; else null.
  Plan* Switch() {
    Plan* switched = nullptr;
    {
      const auto held = held_.Lock();
      Plan* const newest = newest_;
      if (newest != nullptr && current_.exchange(newest) != newest) switched = newest;
      RetainHandle(switched);
    }
    ReleaseOldOnes();
    return switched;
  }

 private:
  // Outside of the lock: a last release unloads kernels.
  void ReleaseOldOnes() {
    while (Plan* const old = TakeOldOne()) ReleaseHandle(old);
  }

  // current_ stands while the lock is held, so a reader that comes after the look at readers_ gets
  // that plan.
  Plan* TakeOldOne() {
    const auto held = held_.Lock();
    if (readers_ != 0) return nullptr;
    const auto old = std::find_if(held->begin(), held->end(), [this](Plan* plan) {
      return plan != current_ && plan != newest_;
    });
    if (old == held->end()) return nullptr;
    Plan* const plan = *old;
    held->erase(old);
    return plan;
  }

  const bool manual_;
  // Written under the lock of held_; both are in it.
  std::atomic<Plan*> current_{nullptr}, newest_{nullptr};
  std::atomic<uint64_t> generation_{kNoGeneration};
  mutable std::atomic<uint32_t> readers_{0};  // between their load of current_ and their reference
  ForkLocal<std::vector<Plan*>> held_;        // in order of age
};

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_SLOT_PLANS_H_
