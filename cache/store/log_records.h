// The records of a LevelDB log or manifest: blocks of 32 KiB, records split into fragments, each
// with a checksum. Read before LevelDB reads them, with the same eyes and more strictly.
#ifndef SINTER_CACHE_STORE_LOG_RECORDS_H_
#define SINTER_CACHE_STORE_LOG_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/files.h"

namespace sinter {

struct LogLimits {
  uint64_t record_bytes = 0;  // of one record at most
  uint64_t kept_bytes = 0;    // of a record's beginning, for the visitor
};

// Calls `visit(head, bytes)` for each record of the file of `file_bytes`, in order: its first
// kept_bytes and its whole size. A record that the end of the file cuts off was being written when
// its writer died, and is left out. DATA_LOSS naming `path` and what is wrong, or what `visit`
// returns. Never keeps more than a block and the head of a record.
absl::Status VisitLogRecords(
    FileOps* ops, int fd, uint64_t file_bytes, absl::string_view path, const LogLimits& limits,
    const std::function<absl::Status(absl::string_view head, uint64_t bytes)>& visit);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_LOG_RECORDS_H_
