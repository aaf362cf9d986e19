#include "src/base/status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace sinter {
namespace {

constexpr char kCodePayload[] = "sinter/error_code";
constexpr char kDriverPayload[] = "sinter/driver_result";
constexpr char kLogPayload[] = "sinter/compile_log";

absl::StatusCode NearestCanonical(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoLegalPlan:
      return absl::StatusCode::kUnimplemented;
    case ErrorCode::kCacheCorrupt:
      return absl::StatusCode::kDataLoss;
    case ErrorCode::kStreamCapturing:
      return absl::StatusCode::kFailedPrecondition;
    case ErrorCode::kCacheMiss:
      return absl::StatusCode::kNotFound;
    case ErrorCode::kCompileFailed:
    case ErrorCode::kDriver:
      break;
  }
  return absl::StatusCode::kInternal;
}

int32_t IntegerPayload(const absl::Status& status, absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  int32_t value = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &value)) return 0;
  return value;
}

}  // namespace

absl::Status MakeError(ErrorCode code, absl::string_view message) {
  absl::Status status(NearestCanonical(code), message);
  status.SetPayload(kCodePayload, absl::Cord(absl::StrCat(static_cast<int32_t>(code))));
  return status;
}

int32_t StatusNumber(const absl::Status& status) {
  const int32_t own = IntegerPayload(status, kCodePayload);
  return own != 0 ? own : static_cast<int32_t>(status.code());
}

bool IsCacheMiss(const absl::Status& status) {
  return StatusNumber(status) == static_cast<int32_t>(ErrorCode::kCacheMiss);
}

void AttachDriverResult(absl::Status& status, int32_t cu_result) {
  status.SetPayload(kDriverPayload, absl::Cord(absl::StrCat(cu_result)));
}

int32_t DriverResultOf(const absl::Status& status) {
  return IntegerPayload(status, kDriverPayload);
}

bool IsContextLost(const absl::Status& status) {
  // CUresult: illegal address, launch timeout, assert, and the faults from the hardware's stack to
  // a failed launch. They are part of the driver's ABI.
  const int32_t result = DriverResultOf(status);
  return result == 700 || result == 702 || result == 710 || (result >= 714 && result <= 719);
}

void AttachCompileLog(absl::Status& status, absl::string_view log) {
  status.SetPayload(kLogPayload, absl::Cord(log));
}

absl::string_view CompileLogOf(const absl::Status& status, std::string* storage) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kLogPayload);
  *storage = payload.has_value() ? std::string(*payload) : std::string();
  return *storage;
}

absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status changed(status.code(), message);
  status.ForEachPayload([&changed](absl::string_view url, const absl::Cord& payload) {
    changed.SetPayload(url, payload);
  });
  return changed;
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return WithMessage(status, absl::StrCat(context, ": ", status.message()));
}

}  // namespace sinter
