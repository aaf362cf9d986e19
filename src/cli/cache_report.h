// What the library says of its cache and of packs, as the documents that --json prints. They fail
// with PERMISSION_DENIED for a folder that was refused, UNAVAILABLE without a local tier. What
// waits to be written is written first.
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
// "arch", "producer", "what", "device", "m" where the chain uses it}]}, times in seconds of 1970.
// "sound" false: a lookup would not take it, and what follows is not known.
absl::StatusOr<Json> ListCache(const Session& session);
// Removes every record of the local tier: {"dir", "store", "removed", "records", "bytes",
// "failed"}; a dry run says what it would remove. FAILED_PRECONDITION, with nothing removed, for a
// folder that holds what is not the library's.
absl::StatusOr<Json> ClearCache(const Session& session, bool dry_run);
// Removes what was longest unused until `max_bytes` are kept, and what killed writers left:
// {"busy", "records", "bytes", "evicted", "evicted_bytes", "orphans"}.
absl::StatusOr<Json> TrimCache(const Session& session, uint64_t max_bytes);
// What the local tier and the context's packs hold, as one pack, whose path is replaced atomically:
// {"path", "plans", "kernels", "bytes", "skipped"}. Skipped is what is damaged, and what this
// library cannot vouch for. `request.wanted` is set here.
absl::StatusOr<Json> ExportRecords(const Session& session, ExportRequest request);
// A pack's sound records into the local tier: {"path", "stored", "refused"}.
absl::StatusOr<Json> ImportRecords(const Session& session, const std::string& path);
// {"path", "producer", "created", "bytes", "signed_by", "plans", "kernels", "verified_kernels",
// "records", "unsound", "findings"}; with `read_all` every byte is checked. PERMISSION_DENIED:
// signed by nobody trusted. DATA_LOSS: nothing of it can be used.
absl::StatusOr<Json> DescribePack(const Session& session, const std::string& path, bool read_all);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_CACHE_REPORT_H_
