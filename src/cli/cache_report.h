// Reports on the cache and on packs: the documents that --json prints. They fail with
// PERMISSION_DENIED for a folder that was refused, UNAVAILABLE without a local tier. Queued writes
// are done first.
#ifndef SINTER_SRC_CLI_CACHE_REPORT_H_
#define SINTER_SRC_CLI_CACHE_REPORT_H_

#include "absl/status/statusor.h"
#include "src/cli/print.h"
#include "src/cli/session.h"
#include "src/engine/cache_tools.h"

namespace sinter::cli {

// Every record of the local tier, read and checked: {"dir", "store", "plans", "kernels",
// "verified_kernels", "other_format", "bytes", "unsound", "quarantined", "temporary", "findings"}.
absl::StatusOr<Json> InspectCache(const Session& session);
// {"dir", "store", "records": [{"kind", "key", "bytes", "last_use", "sound", "verified", "created",
// "arch", "producer", "what", "device", "m" where the chain uses it}]}; times are Unix seconds. If
// "sound" is false, a lookup would not take the record and the fields after it mean nothing.
absl::StatusOr<Json> ListCache(const Session& session);
// Removes every record of the local tier: {"dir", "store", "removed", "records", "bytes",
// "failed"}. A dry run only reports what it would remove. FAILED_PRECONDITION, with nothing
// removed, for a folder that holds something that is not the library's.
absl::StatusOr<Json> ClearCache(const Session& session, bool dry_run);
// Removes the longest unused records until at most `max_bytes` are left, and what killed writers
// left: {"busy", "records", "bytes", "evicted", "evicted_bytes", "orphans"}.
absl::StatusOr<Json> TrimCache(const Session& session, uint64_t max_bytes);
// Writes what the local tier and the context's packs hold as one pack, replacing its path
// atomically: {"path", "plans", "kernels", "bytes", "skipped"}. Skipped are damaged records and
// those that this library cannot vouch for. Sets `request.wanted`.
absl::StatusOr<Json> ExportRecords(const Session& session, ExportRequest request);
// Copies a pack's sound records into the local tier: {"path", "stored", "refused"}.
absl::StatusOr<Json> ImportRecords(const Session& session, const std::string& path);
// {"path", "producer", "created", "bytes", "signed_by", "plans", "kernels", "verified_kernels",
// "records", "unsound", "findings"}; `read_all` checks every byte. PERMISSION_DENIED: no trusted
// key signed it. DATA_LOSS: nothing of it can be used.
absl::StatusOr<Json> DescribePack(const Session& session, const std::string& path, bool read_all);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_CACHE_REPORT_H_
