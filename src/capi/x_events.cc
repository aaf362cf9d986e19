// sinter_x_context_on_event: what the engine does, told to a callback.
#include <cstring>
#include <string>

#include "src/base/printable.h"
#include "src/capi/callout.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

// Texts repeat what files and servers say: they are made printable, as those of the log are.
void Deliver(sinter_x_event_callback callback, uintptr_t user_data, const LogSink& log,
             const EngineEvent& from) {
  const std::string subject = Printable(from.subject), reason = Printable(from.reason);
  sinter_x_event event = SINTER_INIT(sinter_x_event);
  event.kind = static_cast<sinter_x_event_kind>(from.kind);
  event.bucket = from.bucket;
  event.us = from.us;
  event.bytes = from.bytes;
  std::memcpy(event.chain_digest, from.chain.bytes.data(), sizeof(event.chain_digest));
  std::memcpy(event.plan_digest, from.plan.bytes.data(), sizeof(event.plan_digest));
  event.subject = subject.c_str();
  event.tier = from.tier.c_str();
  event.reason = reason.c_str();
  const sinter_x_event* const told = &event;
  const absl::Status called = CallOut("event", callback, user_data, told);
  if (!called.ok()) log.Log(LogLevel::kError, called.message());
}

}  // namespace
}  // namespace sinter::capi

extern "C" sinter_status sinter_x_context_on_event(sinter_context* context,
                                                   sinter_x_event_callback callback,
                                                   uintptr_t user_data, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(context, "context"));
    if (callback == nullptr) return absl::InvalidArgumentError("callback is null");
    return context->engine->TellEvents(
        [callback, user_data, log = context->log](const sinter::EngineEvent& event) {
          capi::Deliver(callback, user_data, log, event);
        });
  });
}
