// Status vocabulary: absl::Status everywhere inside, plus the codes that the C ABI adds to the
// canonical ones.
#ifndef SINTER_SRC_BASE_STATUS_H_
#define SINTER_SRC_BASE_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Errors whose message is made of pieces: Invalid("m is ", m, ", must be >= 0").
#define SINTER_DEFINE_ERROR_(Name, MakeIt)        \
  template <typename... Pieces>                   \
  absl::Status Name(const Pieces&... pieces) {    \
    return absl::MakeIt(absl::StrCat(pieces...)); \
  }
SINTER_DEFINE_ERROR_(Invalid, InvalidArgumentError)
SINTER_DEFINE_ERROR_(Cancelled, CancelledError)
SINTER_DEFINE_ERROR_(DataLoss, DataLossError)
SINTER_DEFINE_ERROR_(DeadlineExceeded, DeadlineExceededError)
SINTER_DEFINE_ERROR_(FailedPrecondition, FailedPreconditionError)
SINTER_DEFINE_ERROR_(Internal, InternalError)
SINTER_DEFINE_ERROR_(NotFound, NotFoundError)
SINTER_DEFINE_ERROR_(OutOfRange, OutOfRangeError)
SINTER_DEFINE_ERROR_(PermissionDenied, PermissionDeniedError)
SINTER_DEFINE_ERROR_(ResourceExhausted, ResourceExhaustedError)
SINTER_DEFINE_ERROR_(Unavailable, UnavailableError)
#undef SINTER_DEFINE_ERROR_

// Numbers of the C ABI (`SINTER_ERROR_*`) beyond the 16 canonical codes. Never reused.
enum class ErrorCode : int32_t {
  kCompileFailed =
      100,  // NVRTC refused generated source, or a spill or C75xx remark failed the candidate
  kNoLegalPlan = 101,      // no kernel family takes this chain
  kDriver = 102,           // a CUDA driver call failed
  kCacheCorrupt = 103,     // only from explicit cache verification; a lookup never returns it
  kStreamCapturing = 104,  // the call is not legal while a stream captures
  kCacheMiss = 105,        // must-hit was asked for and a tier had no usable entry
};

// An error whose C ABI number is `code`. The absl code is the nearest canonical one.
absl::Status MakeError(ErrorCode code, absl::string_view message);

// The C ABI number of `status`: 0, a canonical code 1..16, or an ErrorCode.
int32_t StatusNumber(const absl::Status& status);

bool IsCacheMiss(const absl::Status& status);

// Details that travel with the message; read back by the C ABI. Absent values are 0 and "".
void AttachDriverResult(absl::Status& status, int32_t cu_result);
int32_t DriverResultOf(const absl::Status& status);
// Whether the result of the driver says that a kernel faulted: every later call of its context
// fails alike.
bool IsContextLost(const absl::Status& status);
void AttachCompileLog(absl::Status& status, absl::string_view log);
absl::string_view CompileLogOf(const absl::Status& status, std::string* storage);

// `status` with another message; code and details are kept.
absl::Status WithMessage(const absl::Status& status, absl::string_view message);
// `status` with "context: " put before its message; code and details are kept.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

}  // namespace sinter

#define SINTER_CONCAT_INNER_(a, b) a##b
#define SINTER_CONCAT_(a, b) SINTER_CONCAT_INNER_(a, b)

#define SINTER_RETURN_IF_ERROR(expr)                 \
  do {                                               \
    ::absl::Status sinter_status_ = (expr);          \
    if (!sinter_status_.ok()) return sinter_status_; \
  } while (0)

#define SINTER_ASSIGN_OR_RETURN(lhs, expr) \
  SINTER_ASSIGN_OR_RETURN_IMPL_(SINTER_CONCAT_(sinter_or_, __LINE__), lhs, expr)
#define SINTER_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                  \
  if (!tmp.ok()) return std::move(tmp).status();      \
  lhs = std::move(tmp).value()

#endif  // SINTER_SRC_BASE_STATUS_H_
