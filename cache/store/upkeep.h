// Upkeep of a local store: counts and lists its records, empties it, and keeps it under its cap by
// removing the longest unused records and what killed writers left.
#ifndef SINTER_CACHE_STORE_UPKEEP_H_
#define SINTER_CACHE_STORE_UPKEEP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/record/envelope.h"
#include "cache/store/local_store.h"

namespace sinter {

struct LocalReport {
  uint64_t plans = 0, kernels = 0;  // sound records
  uint64_t verified_kernels = 0;    // kernels that were checked on a device
  uint64_t other_format = 0;        // records of another version of the library
  uint64_t bytes = 0;               // of all records
  uint64_t unsound = 0;             // records that a lookup would refuse
  uint64_t quarantined = 0;         // keys with a tombstone
  uint64_t temporary = 0;           // left by killed writers
  std::vector<std::string>
      findings;  // "name: cause" for unsound records and tombstones, at most 100
};

// Reads every record, changes nothing. Records that `check` refuses are unsound too. Returns the
// error of a store that cannot be used, or of the walk.
absl::StatusOr<LocalReport> InspectStore(LocalStore* store, const RecordCheck& check = nullptr);

// The same for a folder, which is made if it is missing. UNAVAILABLE or PERMISSION_DENIED when it
// cannot be used.
absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root);

// Calls `visit` for each record, in no order. `envelope` is valid only during the call; it is null
// for a record that a lookup would refuse or that another version wrote. Returns the error of the
// store, of the walk, or of `visit`. Holds one record at a time.
using ListedRecord = std::function<void(const StoredEntry& entry, const Envelope* envelope)>;
absl::Status ListStore(LocalStore* store, const ListedRecord& visit);

struct ClearReport {
  uint64_t records = 0, bytes = 0;  // removed, or to be removed
  uint64_t failed = 0;              // those that could not be removed
};

// Removes every record of the store; tombstones stay. With `dry_run` it only reports what it would
// remove. FAILED_PRECONDITION or PERMISSION_DENIED, with nothing removed, for a folder that holds
// something that is not the library's (CheckOurs).
absl::StatusOr<ClearReport> ClearStore(LocalStore* store, bool dry_run);

struct SweepLimits {
  uint64_t max_bytes = uint64_t{2} << 30;  // of all records on disk; 0: no cap
  int64_t orphan_age_s = 900;              // longer than any writer takes
};

struct SweepReport {
  bool busy = false;                // another janitor was at work, so nothing was done
  uint64_t records = 0, bytes = 0;  // before
  uint64_t evicted = 0, evicted_bytes = 0;
  uint64_t orphans = 0;
};

// One sweep. Above the cap, the longest unused records are removed until nine tenths of the cap are
// left, so that the next sweep does not follow at once. Tombstones stay. Readers are not disturbed:
// a reader that has a removed record open goes on, a later one misses. Only one janitor of all
// processes works at a time. Blocks while it looks at every name (about 3 us each). UNAVAILABLE
// when the store cannot be listed.
absl::StatusOr<SweepReport> Sweep(LocalStore* store, const SweepLimits& limits);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_UPKEEP_H_
