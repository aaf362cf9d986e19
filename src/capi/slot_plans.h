// SlotPlans: the plans of a slot. One is current; it is taken without waiting.
#ifndef SINTER_SRC_CAPI_SLOT_PLANS_H_
#define SINTER_SRC_CAPI_SLOT_PLANS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "sinter/sinter.h"
#include "src/base/fork_local.h"

namespace sinter::capi {

// Thread-safe. Holds a reference to the current plan and to the newest. An older one is let go when
// the next plan comes and nobody is taking one at that moment.
class SlotPlans {
 public:
  static constexpr uint64_t kNone = 0, kStandIn = 1,
                            kFinal = 2;  // generations; each further: one more

  // `manual`: a plan that is added waits for Switch.
  explicit SlotPlans(bool manual);
  ~SlotPlans();
  SlotPlans(const SlotPlans&) = delete;
  SlotPlans& operator=(const SlotPlans&) = delete;

  // A new reference to the current plan; null without one. Wait-free.
  sinter_plan* Acquire() const;
  // Of the newest. Who sees one gets that plan, or a later one, where nothing waits for a switch.
  uint64_t generation() const { return generation_; }
  bool manual() const { return manual_; }
  // Whether Add was called.
  bool HasFinal() const { return newest_ != nullptr; }

  // Takes a reference. Before anybody sees the slot; current from then on.
  void AddStandIn(sinter_plan* plan);
  // Takes a reference. The first of them allocates nothing. Not in the child of a fork.
  void Add(sinter_plan* plan);
  // Makes the newest plan current: a new reference to it when it was not; else null.
  sinter_plan* Switch();

 private:
  void LetOldOnesGo();
  sinter_plan* TakeOldOne();

  const bool manual_;
  // Written under the lock of held_; both are in it.
  std::atomic<sinter_plan*> current_{nullptr}, newest_{nullptr};
  std::atomic<uint64_t> generation_{kNone};
  mutable std::atomic<uint32_t> readers_{0};   // between their load of current_ and their reference
  ForkLocal<std::vector<sinter_plan*>> held_;  // in order of age
};

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_SLOT_PLANS_H_
