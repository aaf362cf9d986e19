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
      return kUsage;
    case SINTER_UNAVAILABLE:
    case SINTER_FAILED_PRECONDITION:
      return kUnavailable;
    default:
      return kFailed;
  }
}

// Messages are one line; whatever a driver or compiler put into one, a terminal sees one line.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

}  // namespace

Outcome FromStatus(sinter_status status, sinter_error* error) {
  if (status == SINTER_OK) return {};
  Outcome outcome{ExitOf(status), OneLine(sinter_error_get_message(error))};
  if (outcome.message.empty()) outcome.message = sinter_status_name(status);
  if (status >= 100) {
    outcome.message = std::string(sinter_status_name(status)) + ": " + outcome.message;
  }
  sinter_error_release(error);
  return outcome;
}

}  // namespace sinter::cli
