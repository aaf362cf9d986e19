// RecordCheck: what somebody who understands payloads says of a record.
#ifndef SINTER_CACHE_RECORD_RECORD_CHECK_H_
#define SINTER_CACHE_RECORD_RECORD_CHECK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/ports.h"

namespace sinter {

// Why a record is not what its key says. OK for one that is, and for one that cannot be judged.
using RecordCheck =
    std::function<absl::Status(RecordKind kind, absl::string_view key, absl::string_view payload)>;

// An empty check finds nothing.
inline absl::Status RunCheck(const RecordCheck& check, RecordKind kind, absl::string_view key,
                             absl::string_view payload) {
  return check ? check(kind, key, payload) : absl::OkStatus();
}

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_RECORD_CHECK_H_
