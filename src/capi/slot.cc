// sinter_slot: a place that always holds the best plan so far.
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "sinter/sinter.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/slot_plans.h"

namespace capi = sinter::capi;

namespace sinter::capi {
// A slot and its build share this state. Invariant: `error` is set before `failed`.
struct SlotState {
  explicit SlotState(bool manual) : plans(manual) {}

  void NoteUpgrade(const sinter_plan& plan) {
    GuardOr(0, [&] {  // without memory nobody is notified
      engine->NoteSlot(SlotStep::kUpgraded, plan.prepared.get(), "");
      return 0;
    });
  }
  void Add(sinter_plan* plan) {
    plans.Add(plan);
    if (!plans.manual()) NoteUpgrade(*plan);
  }
  void EndBuild(sinter_plan* plan, sinter_status code, sinter_error* why) {
    engine->NoteSlot(SlotStep::kBuildEnded, nullptr, "");
    if (code == SINTER_OK) return Add(plan);
    error = RefTo(why);
    failed = code;
    if (code == SINTER_CANCELLED) return;
    GuardOr(0, [&] {  // without memory there is no log line
      engine->NoteSlot(SlotStep::kBuildFailed, nullptr, sinter_error_get_message(why));
      return 0;
    });
  }
  // `before` was measured with others, of which `plan` is the fastest.
  void EndMeasurement(const Digest& before, sinter_plan* plan) {
    if (plans.generation() != kFinalGeneration) return;  // another was offered
    if (plan->prepared->plan().PlanDigest() != before) Add(plan);
  }

  std::shared_ptr<Engine> engine;
  PlanUse use;  // of every plan that the slot may hold
  SlotPlans<sinter_plan> plans;
  HandleRef<sinter_error> error;
  std::atomic<sinter_status> failed{SINTER_OK};
  // The slot's; written before it is made or before its build ends. Null: nothing is measured.
  sinter_pending* measurement = nullptr;
};

// Starts the measurement of a slot once its plan is there. Holds the context and the chain until
// then.
class MeasureLater {
 public:
  MeasureLater(const sinter_context* context, const sinter_chain* chain, int64_t m,
               PrepareSettings settings)
      : context_(RefTo(context)), chain_(RefTo(chain)), m_(m), settings_(std::move(settings)) {
    settings_.base.background = true;
    settings_.base.measuring.mode = Measuring::Mode::kWhileServing;
    settings_.base.progress = nullptr;
    settings_.has_deadline = false;  // which is the build's
  }

  // Where there is no thread or no memory for it, the slot goes without.
  void Start(const std::shared_ptr<SlotState>& state, const sinter_plan& plan) const {
    GuardOr(0, [&] {
      const auto end = [state, before = plan.prepared->plan().PlanDigest()](
                           sinter_plan* measured, sinter_status code, sinter_error*) {
        if (code == SINTER_OK) state->EndMeasurement(before, measured);
      };
      absl::StatusOr<sinter_pending*> begun =
          StartPrepare(context_.get(), chain_.get(), m_, settings_, end);
      if (begun.ok()) state->measurement = *begun;
      return 0;
    });
  }

 private:
  const HandleRef<const sinter_context> context_;
  const HandleRef<const sinter_chain> chain_;
  const int64_t m_;
  PrepareSettings settings_;
};

}  // namespace sinter::capi

struct sinter_slot : sinter::capi::Handle<sinter_slot> {
  static constexpr uint32_t kMagic = 0x53536c6f;
  static constexpr char kTypeName[] = "sinter_slot";
  explicit sinter_slot(bool manual) : state(std::make_shared<capi::SlotState>(manual)) {}
  ~sinter_slot() {
    sinter_pending_release(build);  // it may still begin to measure
    sinter_pending_release(state->measurement);
  }

  const std::shared_ptr<capi::SlotState> state;
  sinter_pending* build = nullptr;
  const pid_t owner = getpid();
};

namespace sinter::capi {
namespace {

// Reports why there is no plan: the build failed, or the slot waits for something.
sinter_status ReportNoPlan(const sinter_slot& slot, sinter_error** error) {
  const SlotState& state = *slot.state;
  const bool waits = state.plans.HasFinal();
  if (const sinter_status failed = state.failed; !waits && failed != SINTER_OK) {
    if (error != nullptr) *error = RefTo(state.error.get()).release();
    return failed;
  }
  return Guard(error, [&]() -> absl::Status {
    if (waits) return NotFound("the slot's plan is there and waits for sinter_slot_switch");
    if (slot.owner == getpid()) {
      return NotFound("no plan yet: the slot's is being built in the background");
    }
    return FailedPrecondition(
        "the slot's build is the parent's, after a fork: create the slot again here");
  });
}

// The plan that is there, or one that stands in; null where there is none.
absl::StatusOr<sinter_plan*> LookUp(const sinter_context& context, const Chain& chain, int64_t m,
                                    PrepareSettings settings) {
  settings.base.no_build = true;
  settings.base.progress = nullptr;  // it is the build's
  absl::StatusOr<sinter_plan*> plan = PreparePlan(context, chain, m, settings);
  if (absl::IsNotFound(plan.status())) return nullptr;
  return plan;
}

absl::Status FillSlot(const sinter_context& context, const sinter_chain* chain, int64_t m,
                      PrepareSettings settings, sinter_slot* slot) {
  std::shared_ptr<const MeasureLater> later;  // null: the plan is not measured
  if (context.engine->Measures(settings.base, /*now=*/true)) {
    later = std::make_shared<const MeasureLater>(&context, chain, m, settings);
  }
  Measuring& measuring = settings.base.measuring;  // of the build, which waits for no measuring
  if (measuring.mode != Measuring::Mode::kOff) measuring.mode = Measuring::Mode::kKept;
  measuring.required = false;
  SINTER_ASSIGN_OR_RETURN(sinter_plan* const hit, LookUp(context, *chain->chain, m, settings));
  const bool stands_in = hit != nullptr && hit->prepared->plan().IsStandIn();
  if (stands_in) slot->state->plans.AddStandIn(hit);
  if (hit != nullptr && !stands_in) slot->state->plans.Add(hit);
  ReleaseHandle(hit);
  if (slot->state->plans.HasFinal()) {
    slot->build = EndedPrepare(hit);
    if (later != nullptr) later->Start(slot->state, *hit);
    return absl::OkStatus();
  }
  settings.base.background = true;
  const auto end = [state = slot->state, later](sinter_plan* plan, sinter_status code,
                                                sinter_error* why) {
    state->EndBuild(plan, code, why);
    if (later != nullptr && code == SINTER_OK) later->Start(state, *plan);
  };
  SINTER_ASSIGN_OR_RETURN(slot->build, StartPrepare(&context, chain, m, settings, end));
  context.engine->NoteSlot(SlotStep::kBuildBegun, nullptr, "");
  return absl::OkStatus();
}

absl::StatusOr<sinter_slot*> MakeSlot(const sinter_context* context, const sinter_chain* chain,
                                      int64_t m, const sinter_prepare_options* options,
                                      uint32_t flags) {
  SINTER_ASSIGN_OR_RETURN(const PrepareSettings settings, ReadPrepareSettings(context, options));
  SINTER_RETURN_IF_ERROR(CheckFlags(flags, SINTER_SLOT_MANUAL, "slot"));
  if (settings.base.no_build) {
    return WithField(Invalid("prepare.flags has SINTER_PREPARE_NO_BUILD, but a slot builds"),
                     "prepare.flags", "SINTER_PREPARE_NO_BUILD");
  }
  SINTER_RETURN_IF_ERROR(Finished(chain).status());
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, settings.stream));
  auto slot = std::make_unique<sinter_slot>((flags & SINTER_SLOT_MANUAL) != 0);
  slot->state->engine = context->engine;
  slot->state->use = context->engine->UseFor(*chain->chain, m, settings.base.batch_invariant);
  SINTER_RETURN_IF_ERROR(FillSlot(*context, chain, m, settings, slot.get()));
  return slot.release();
}

absl::Status Offer(const sinter_slot* slot, sinter_plan* plan) {
  SINTER_RETURN_IF_ERROR(Check(slot, "slot"));
  SINTER_RETURN_IF_ERROR(Check(plan, "plan"));
  if (slot->owner != getpid()) {
    return FailedPrecondition("the slot is the parent's, after a fork: create the slot again here");
  }
  if (sinter_pending_poll(slot->build) == 0) {
    return FailedPrecondition(
        "the slot's build is under way: offer a plan once it has ended (sinter_slot_get_build)");
  }
  if (plan->prepared->plan().IsStandIn()) {
    return InvalidField("the plan", "a stand-in", "a plan that was built");
  }
  SINTER_RETURN_IF_ERROR(CheckUse(slot->state->use, plan->prepared->Use()));
  slot->state->Add(plan);
  return absl::OkStatus();
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_slot_create(sinter_context* context, const sinter_chain* chain, int64_t m,
                                 const sinter_prepare_options* options, uint32_t flags,
                                 sinter_slot** out_slot, sinter_error** error) {
  return capi::Give(out_slot, "out_slot", error,
                    [&] { return capi::MakeSlot(context, chain, m, options, flags); });
}

void sinter_slot_retain(const sinter_slot* slot) { capi::RetainHandle(slot); }
void sinter_slot_release(const sinter_slot* slot) { capi::ReleaseHandle(slot); }

sinter_status sinter_slot_acquire(const sinter_slot* slot, sinter_plan** out_plan,
                                  sinter_error** error) {
  if (capi::IsLive(slot) && out_plan != nullptr) {
    sinter_plan* const plan = slot->state->plans.Acquire();
    if (plan == nullptr) return capi::ReportNoPlan(*slot, error);
    *out_plan = plan;
    return SINTER_OK;
  }
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(slot, "slot"));
    return capi::CheckNotNull(out_plan, "out_plan");
  });
}

uint64_t sinter_slot_get_generation(const sinter_slot* slot) {
  return capi::IsLive(slot) ? slot->state->plans.generation() : capi::kNoGeneration;
}

sinter_status sinter_slot_offer(const sinter_slot* slot, sinter_plan* plan, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::Offer(slot, plan); });
}

sinter_status sinter_slot_switch(const sinter_slot* slot, sinter_error** error) {
  const sinter_status usable = capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(slot, "slot"));
    if (slot->state->plans.manual()) return absl::OkStatus();
    return sinter::FailedPrecondition("the slot was created without SINTER_SLOT_MANUAL");
  });
  if (usable != SINTER_OK) return usable;
  capi::SlotState& state = *slot->state;
  if (!state.plans.HasFinal()) return capi::ReportNoPlan(*slot, error);
  sinter_plan* const plan = state.plans.Switch();
  if (plan != nullptr) state.NoteUpgrade(*plan);
  capi::ReleaseHandle(plan);
  return SINTER_OK;
}

sinter_status sinter_slot_get_build(const sinter_slot* slot, sinter_pending** out_build,
                                    sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(slot, "slot"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_build, "out_build"));
    sinter_pending_retain(slot->build);
    *out_build = slot->build;
    return absl::OkStatus();
  });
}

}  // extern "C"
