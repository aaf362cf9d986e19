// A database's files, judged before LevelDB opens it: whatever their checksums say, nothing in them
// may lead it past a buffer, into an assertion or to an allocation without bound.
#ifndef SINTER_CACHE_STORE_DATABASE_CHECK_H_
#define SINTER_CACHE_STORE_DATABASE_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/directory.h"
#include "cache/store/table_map.h"

namespace sinter {

// The table that is open as `fd`. Errors as TableMap::Read.
absl::StatusOr<TableMap> ReadTableMap(FileOps* ops, int fd, uint64_t file_bytes,
                                      absl::string_view path);

// The manifest `manifest` of the folder db, the tables that it names, and every log among `names`.
// A table has the length that the manifest says, sound parts, and the manifest's keys in its first
// and last data block. The other data blocks are checked when they are read (database_env.h).
// DATA_LOSS naming the file and what is wrong; UNAVAILABLE and the like
// when a system call failed.
absl::Status CheckDatabaseFiles(const StoreDirectory& dir, const std::string& manifest,
                                const std::vector<std::string>& names);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_CHECK_H_
