// sinter_error and sinter_x_text: the two objects that only carry text.
#include "src/capi/objects.h"

namespace capi = sinter::capi;

extern "C" {

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
