#include "src/cli/outcome.h"

namespace sinter::cli {
namespace {

int ExitOf(sinter_status status) {
  switch (status) {
    case SINTER_OK:
      return kDone;
    case SINTER_INVALID_ARGUMENT:
    case SINTER_NOT_FOUND:
    case SINTER_OUT_OF_RANGE:
    case SINTER_FAILED_PRECONDITION:  // of a chain, a pack, a compiler that was denied
    case SINTER_PERMISSION_DENIED:    // of a key, a pack, a folder that others may write
      return kUsage;
    case SINTER_UNAVAILABLE:
    case SINTER_RESOURCE_EXHAUSTED:
      return kUnavailable;
    default:
      return kFailed;
  }
}

}  // namespace

Outcome FromStatus(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return {};
  Outcome outcome{ExitOf(status), sinter_error_get_message(error), status};
  if (outcome.message.empty()) outcome.message = sinter_status_name(status);
  if (status >= 100) {
    outcome.message = std::string(sinter_status_name(status)) + ": " + outcome.message;
  }
  sinter_error_release(error);
  return outcome;
}

}  // namespace sinter::cli
