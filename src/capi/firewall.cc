#include "src/capi/firewall.h"

#include <memory>
#include <string>

#include "src/base/format.h"
#include "src/capi/objects.h"

namespace sinter::capi {
namespace {

std::unique_ptr<sinter_error> MakeErrorObject(const absl::Status& status) {
  auto object = std::make_unique<sinter_error>();
  object->code = StatusNumber(status);
  object->message = Printable(status.message());
  object->driver_result = DriverResultOf(status);
  std::string storage;
  object->compile_log = std::string(CompileLogOf(status, &storage));
  return object;
}

}  // namespace

sinter_status Report(const absl::Status& status, sinter_error** error) noexcept {
  const sinter_status code = StatusNumber(status);
  if (error == nullptr) return code;
  *error = nullptr;
  try {
    *error = MakeErrorObject(status).release();
  } catch (...) {  // out of memory: the number alone has to do
  }
  return code;
}

sinter_status ReportThrown(bool out_of_memory, const char* what, sinter_error** error) noexcept {
  const sinter_status code = out_of_memory ? SINTER_RESOURCE_EXHAUSTED : SINTER_INTERNAL;
  if (error == nullptr) return code;
  *error = nullptr;
  try {
    auto object = std::make_unique<sinter_error>();
    object->code = code;
    object->message = out_of_memory ? "out of memory"
                                    : Printable(std::string("unexpected exception: ") +
                                                (what != nullptr ? what : "not a std::exception"));
    *error = object.release();
  } catch (...) {  // as above
  }
  return code;
}

}  // namespace sinter::capi
