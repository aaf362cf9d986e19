// Moves the records of one kind of local tier into another.
#ifndef SINTER_CACHE_STORE_CONVERT_H_
#define SINTER_CACHE_STORE_CONVERT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/record_store.h"

namespace sinter {

enum class LocalStoreKind {
  kTables,    // "tables": sealed tables, for any number of processes
  kDatabase,  // "leveldb-db": one database, for one owning process
};

absl::string_view NameOf(LocalStoreKind kind);
// INVALID_ARGUMENT naming what is allowed.
absl::StatusOr<LocalStoreKind> LocalStoreKindFromName(absl::string_view name);

// A store of that kind at `root`. Never null; see usable().
std::unique_ptr<RecordStore> OpenRecordStore(LocalStoreKind kind, const std::string& root,
                                             const std::string& producer);

struct ConvertReport {
  uint64_t records = 0, tombstones = 0;  // that the target has now
  uint64_t other_format = 0;             // of these records: another version's, taken over unread
  uint64_t unsound = 0;                  // left behind: no lookup would have served them
  uint64_t failed = 0;                   // the target refused; `first_failure` says why
  std::string first_failure;
  uint64_t removed = 0;  // from the source
};

// Puts every sound record, whichever version of the library wrote it, and every tombstone of `from`
// into `to`, envelopes as they are (producer, time, verified). Then, if `remove_source`, removes
// from `from` what `to` took; tombstones stay in both. Stopped in the middle, it can be run again.
// The status of a store that is not usable, or of the walk.
absl::StatusOr<ConvertReport> ConvertStore(RecordStore* from, RecordStore* to, bool remove_source);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_CONVERT_H_
