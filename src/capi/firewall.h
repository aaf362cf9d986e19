// Firewall: the only way from C++ to C. Turns a status into a number and an error object, and every
// exception into a status.
#ifndef SINTER_SRC_CAPI_FIREWALL_H_
#define SINTER_SRC_CAPI_FIREWALL_H_

#include <exception>
#include <new>

#include "absl/status/status.h"
#include "sinter/sinter.h"
#include "src/base/status.h"

namespace sinter::capi {

// The number of `status`, and where `error` is a place, a new error. When even that cannot be
// allocated, the place receives NULL.
sinter_status Report(const absl::Status& status, sinter_error** error) noexcept;
// The same for what was thrown: bad_alloc is RESOURCE_EXHAUSTED, all else INTERNAL. `what` may be
// null.
sinter_status ReportThrown(bool out_of_memory, const char* what, sinter_error** error) noexcept;

// Runs `body`, a callable that returns absl::Status. Nothing escapes.
template <typename Body>
sinter_status Guard(sinter_error** error, Body&& body) noexcept {
  try {
    const absl::Status status = body();
    return status.ok() ? SINTER_OK : Report(status, error);
  } catch (const std::bad_alloc&) {
    return ReportThrown(true, nullptr, error);
  } catch (const std::exception& e) {
    return ReportThrown(false, e.what(), error);
  } catch (...) {
    return ReportThrown(false, nullptr, error);
  }
}

// Runs `body`; its result, or `fallback` when it throws. For functions that return no status.
template <typename T, typename Body>
T GuardOr(T fallback, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return fallback;
  }
}

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_FIREWALL_H_
