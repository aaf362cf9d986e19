// sinter_slot: a place that always holds the best plan so far.
#include <unistd.h>

#include <atomic>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/capi/pending.h"
#include "src/capi/structs.h"

namespace capi = sinter::capi;

namespace sinter::capi {

constexpr uint64_t kNoPlan = 0, kStandIn = 1, kFinalPlan = 2;  // generations

// A slot and its build share this state. It keeps every plan that was ever current alive, so that
// acquire is a load and a count. Invariant: `current` is set before `built`, so that a caller who
// sees a generation gets its plan; `error` is set before `failed`.
struct SlotState {
  std::shared_ptr<Engine> engine;
  bool manual = false;
  std::atomic<sinter_plan*> current{nullptr};   // what acquire gives; borrowed from one of the two
  std::atomic<sinter_plan*> stand_in{nullptr};  // set before anybody sees the slot
  std::atomic<sinter_plan*> built{nullptr};
  sinter_error* error = nullptr;
  std::atomic<sinter_status> failed{SINTER_OK};

  ~SlotState() {
    ReleaseHandle(built.load());
    ReleaseHandle(stand_in.load());
    ReleaseHandle(error);
  }
  void Hold(sinter_plan* plan) {
    RetainHandle(plan);
    if (!manual) current = plan;
    built = plan;
  }
  void HoldStandIn(sinter_plan* plan) { current = stand_in = plan; }
  void NoteUpgrade() {
    GuardOr(0, [&] {  // without memory nobody is told
      engine->NoteSlot(SlotStep::kUpgraded, built.load()->prepared.get(), "");
      return 0;
    });
  }
  void EndBuild(sinter_plan* plan, sinter_status code, sinter_error* why) {
    engine->NoteSlot(SlotStep::kBuildEnded, nullptr, "");
    if (code == SINTER_OK) {
      Hold(plan);
      if (!manual) NoteUpgrade();
      return;
    }
    RetainHandle(why);
    error = why;
    failed = code;
    if (code == SINTER_CANCELLED) return;
    GuardOr(0, [&] {  // without memory there is no log line
      engine->NoteSlot(SlotStep::kBuildFailed, nullptr, sinter_error_get_message(why));
      return 0;
    });
  }
};

}  // namespace sinter::capi

struct sinter_slot : sinter::capi::Handle<sinter_slot> {
  static constexpr uint32_t kMagic = 0x53536c6f;
  static constexpr char kTypeName[] = "sinter_slot";
  std::shared_ptr<capi::SlotState> state = std::make_shared<capi::SlotState>();
  sinter_pending* build = nullptr;
  const pid_t owner = getpid();

  ~sinter_slot() { sinter_pending_release(build); }
};

namespace sinter::capi {
namespace {

// Reports why there is no plan: the build failed, or the slot waits for something.
sinter_status ReportNoPlan(const sinter_slot& slot, sinter_error** error) {
  const SlotState& state = *slot.state;
  if (const sinter_status failed = state.failed; failed != SINTER_OK) {
    if (error != nullptr) *error = state.error;
    if (error != nullptr) RetainHandle(state.error);
    return failed;
  }
  return Guard(error, [&]() -> absl::Status {
    if (state.manual && state.built != nullptr) {
      return absl::NotFoundError("the slot's plan is built and waits for sinter_slot_switch");
    }
    if (slot.owner == getpid()) {
      return absl::NotFoundError("no plan yet: the slot's is being built in the background");
    }
    return absl::FailedPreconditionError(
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
  SINTER_ASSIGN_OR_RETURN(sinter_plan* const hit, LookUp(context, *chain->chain, m, settings));
  const bool stands_in = hit != nullptr && hit->prepared->plan().IsStandIn();
  if (stands_in) slot->state->HoldStandIn(hit);
  if (hit != nullptr && !stands_in) {
    slot->state->Hold(hit);
    ReleaseHandle(hit);
    slot->build = EndedPrepare(hit);
    return absl::OkStatus();
  }
  settings.base.background = true;
  const auto end = [state = slot->state](sinter_plan* plan, sinter_status code, sinter_error* why) {
    state->EndBuild(plan, code, why);
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
    return absl::InvalidArgumentError(
        "prepare.flags has SINTER_PREPARE_NO_BUILD, but a slot builds");
  }
  SINTER_RETURN_IF_ERROR(Finished(chain).status());
  SINTER_RETURN_IF_ERROR(RefuseCapture(*context, settings.stream));
  auto slot = std::make_unique<sinter_slot>();
  slot->state->engine = context->engine;
  slot->state->manual = (flags & SINTER_SLOT_MANUAL) != 0;
  SINTER_RETURN_IF_ERROR(FillSlot(*context, chain, m, settings, slot.get()));
  return slot.release();
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_slot_create(sinter_context* context, const sinter_chain* chain, int64_t m,
                                 const sinter_prepare_options* options, uint32_t flags,
                                 sinter_slot** out_slot, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_slot, "out_slot"));
    SINTER_ASSIGN_OR_RETURN(*out_slot, capi::MakeSlot(context, chain, m, options, flags));
    return absl::OkStatus();
  });
}

void sinter_slot_retain(const sinter_slot* slot) { capi::RetainHandle(slot); }
void sinter_slot_release(const sinter_slot* slot) { capi::ReleaseHandle(slot); }

sinter_status sinter_slot_acquire(const sinter_slot* slot, sinter_plan** out_plan,
                                  sinter_error** error) {
  if (capi::IsLive(slot) && out_plan != nullptr) {
    sinter_plan* const plan = slot->state->current;
    if (plan == nullptr) return capi::ReportNoPlan(*slot, error);
    capi::RetainHandle(plan);
    *out_plan = plan;
    return SINTER_OK;
  }
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(slot, "slot"));
    return capi::CheckNotNull(out_plan, "out_plan");
  });
}

uint64_t sinter_slot_get_generation(const sinter_slot* slot) {
  if (!capi::IsLive(slot)) return sinter::capi::kNoPlan;
  if (slot->state->built != nullptr) return sinter::capi::kFinalPlan;
  return slot->state->stand_in != nullptr ? sinter::capi::kStandIn : sinter::capi::kNoPlan;
}

sinter_status sinter_slot_switch(const sinter_slot* slot, sinter_error** error) {
  const sinter_status usable = capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(slot, "slot"));
    if (slot->state->manual) return absl::OkStatus();
    return absl::FailedPreconditionError("the slot was created without SINTER_SLOT_MANUAL");
  });
  if (usable != SINTER_OK) return usable;
  capi::SlotState& state = *slot->state;
  sinter_plan* const built = state.built;
  if (built == nullptr) return capi::ReportNoPlan(*slot, error);
  if (state.current.exchange(built) != built) state.NoteUpgrade();
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
