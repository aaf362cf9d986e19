// Looks at all of a local store for people, and empties it for them: what is there, is it sound.
#ifndef SINTER_CACHE_STORE_INSPECT_H_
#define SINTER_CACHE_STORE_INSPECT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/record/record_check.h"
#include "cache/store/record_store.h"

namespace sinter {

struct LocalReport {
  uint64_t plans = 0, kernels = 0;  // sound records
  uint64_t verified_kernels = 0;    // of these, checked on a device
  uint64_t other_format = 0;        // records of another version of the library
  uint64_t bytes = 0;               // of all records
  uint64_t unsound = 0;             // records that a lookup would refuse
  uint64_t quarantined = 0;         // keys with a tombstone
  uint64_t temporary = 0;           // left by killed writers
  std::vector<std::string>
      findings;  // "name: cause" of unsound records and tombstones, at most 100
};

// Reads every record, changes nothing. What `check` finds wrong is unsound too. The status of a
// store that cannot be used, or of the walk.
absl::StatusOr<LocalReport> InspectStore(RecordStore* store, const RecordCheck& check = nullptr);

// The same for the sealed tables of a folder. UNAVAILABLE or PERMISSION_DENIED when it cannot be
// used. Makes the folder if it is missing.
absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root);

// Calls `visit` for each record, in no order. `envelope` is null for one that a lookup would refuse
// or that another version wrote, and valid in the call only. The status of the store, of the walk,
// or of `visit`. Holds no record longer than its call.
using ListedRecord = std::function<void(const StoredEntry& entry, const Envelope* envelope)>;
absl::Status ListStore(RecordStore* store, const ListedRecord& visit);

struct ClearReport {
  uint64_t records = 0, bytes = 0;  // removed, or to be removed
  uint64_t failed = 0;              // could not be removed
};

// Removes every record of the store; tombstones stay. With `dry_run` says what it would remove.
// FAILED_PRECONDITION and PERMISSION_DENIED, without having removed any, for a folder that holds
// what is not the library's (CheckOurs).
absl::StatusOr<ClearReport> ClearStore(RecordStore* store, bool dry_run);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_INSPECT_H_
