// Version, build and status names; errors; texts and finished chains as objects.
#include "sinter/sinter.h"
#include "sinter_build_info.h"
#include "src/base/status.h"
#include "src/capi/objects.h"

namespace capi = sinter::capi;

extern "C" {

uint32_t sinter_version(void) {
  return SINTER_VERSION_MAJOR * 10000 + SINTER_VERSION_MINOR * 100 + SINTER_VERSION_PATCH;
}

const char* sinter_build_info(void) { return SINTER_BUILD_INFO; }

const char* sinter_status_name(sinter_status status) {
  switch (status) {
#define SINTER_CASE(code, name) \
  case code:                    \
    return name
    SINTER_CASE(SINTER_OK, "OK");
    SINTER_CASE(SINTER_CANCELLED, "CANCELLED");
    SINTER_CASE(SINTER_UNKNOWN, "UNKNOWN");
    SINTER_CASE(SINTER_INVALID_ARGUMENT, "INVALID_ARGUMENT");
    SINTER_CASE(SINTER_DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED");
    SINTER_CASE(SINTER_NOT_FOUND, "NOT_FOUND");
    SINTER_CASE(SINTER_ALREADY_EXISTS, "ALREADY_EXISTS");
    SINTER_CASE(SINTER_PERMISSION_DENIED, "PERMISSION_DENIED");
    SINTER_CASE(SINTER_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED");
    SINTER_CASE(SINTER_FAILED_PRECONDITION, "FAILED_PRECONDITION");
    SINTER_CASE(SINTER_ABORTED, "ABORTED");
    SINTER_CASE(SINTER_OUT_OF_RANGE, "OUT_OF_RANGE");
    SINTER_CASE(SINTER_UNIMPLEMENTED, "UNIMPLEMENTED");
    SINTER_CASE(SINTER_INTERNAL, "INTERNAL");
    SINTER_CASE(SINTER_UNAVAILABLE, "UNAVAILABLE");
    SINTER_CASE(SINTER_DATA_LOSS, "DATA_LOSS");
    SINTER_CASE(SINTER_UNAUTHENTICATED, "UNAUTHENTICATED");
    SINTER_CASE(SINTER_ERROR_COMPILE_FAILED, "COMPILE_FAILED");
    SINTER_CASE(SINTER_ERROR_NO_LEGAL_PLAN, "NO_LEGAL_PLAN");
    SINTER_CASE(SINTER_ERROR_DRIVER, "DRIVER");
    SINTER_CASE(SINTER_ERROR_CACHE_CORRUPT, "CACHE_CORRUPT");
    SINTER_CASE(SINTER_ERROR_STREAM_CAPTURING, "STREAM_CAPTURING");
    SINTER_CASE(SINTER_ERROR_CACHE_MISS, "CACHE_MISS");
#undef SINTER_CASE
    default:
      return "UNKNOWN_STATUS";
  }
}

void sinter_error_retain(const sinter_error* error) { capi::RetainHandle(error); }
void sinter_error_release(const sinter_error* error) { capi::ReleaseHandle(error); }

sinter_status sinter_error_get_code(const sinter_error* error) {
  return capi::IsLive(error) ? error->code : SINTER_INVALID_ARGUMENT;
}

const char* sinter_error_get_message(const sinter_error* error) {
  return capi::IsLive(error) ? error->message.c_str() : "";
}

int32_t sinter_error_get_driver_result(const sinter_error* error) {
  return capi::IsLive(error) ? error->driver_result : 0;
}

const char* sinter_error_get_compile_log(const sinter_error* error) {
  return capi::IsLive(error) ? error->compile_log.c_str() : "";
}

void sinter_x_text_release(const sinter_x_text* text) { capi::ReleaseHandle(text); }

const char* sinter_x_text_get(const sinter_x_text* text) {
  return capi::IsLive(text) ? text->text.c_str() : "";
}

}  // extern "C"

namespace sinter::capi {

absl::StatusOr<const Chain*> Finished(const sinter_chain* chain) {
  SINTER_RETURN_IF_ERROR(Check(chain, "chain"));
  if (!chain->chain.has_value()) {
    return absl::FailedPreconditionError("chain is not finished: call sinter_chain_finish first");
  }
  return &*chain->chain;
}

sinter_chain* NewFinishedChain(Chain chain) {
  auto object = std::make_unique<sinter_chain>();
  object->chain.emplace(std::move(chain));
  return object.release();
}

sinter_x_text* NewText(std::string text) {
  auto object = std::make_unique<sinter_x_text>();
  object->text = std::move(text);
  return object.release();
}

}  // namespace sinter::capi
