// The folder of the database: judged before LevelDB opens it, and put aside whole when it is not
// sound. Never repaired in place.
#ifndef SINTER_CACHE_STORE_DATABASE_FILES_H_
#define SINTER_CACHE_STORE_DATABASE_FILES_H_

#include "absl/status/status.h"
#include "cache/store/directory.h"

namespace sinter {

constexpr char kDatabaseFolder[] = "db";
constexpr char kDatabaseLock[] = "db.lock";

// OK when LevelDB may open the folder: it is empty, or CURRENT names one of its manifests, and that
// one, its tables and the logs hold nothing that LevelDB must not see (database_check.h). LevelDB
// itself takes a folder without CURRENT for a new one and deletes what is in it, and follows
// CURRENT wherever it points. DATA_LOSS when it must be put aside first, PERMISSION_DENIED when a
// file belongs to somebody else, UNAVAILABLE. Makes the folder. The caller holds the database's
// lock.
absl::Status CheckDatabaseFolder(const StoreDirectory& dir);

// Moves the folder to bad/, where one of its kind is kept: the last. The caller holds the lock, and
// nobody has the database open.
absl::Status MoveDatabaseAside(const StoreDirectory& dir);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_FILES_H_
