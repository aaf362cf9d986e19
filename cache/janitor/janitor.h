// The janitor: keeps a local tier under its cap by removing what was longest unused, and removes
// what killed writers left.
#ifndef SINTER_CACHE_JANITOR_JANITOR_H_
#define SINTER_CACHE_JANITOR_JANITOR_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cache/store/record_store.h"

namespace sinter {

struct SweepLimits {
  uint64_t max_bytes = uint64_t{2} << 30;  // of all records on disk; 0: no cap
  int64_t orphan_age_s = 900;              // a writer does not take this long
};

struct SweepReport {
  bool busy = false;                // another janitor was at work: nothing was done
  uint64_t records = 0, bytes = 0;  // before
  uint64_t evicted = 0, evicted_bytes = 0;
  uint64_t orphans = 0;
};

// One sweep. Above the cap, records go, longest unused first, until nine tenths of the cap are
// left: so that the next sweep is not at once. Tombstones stay. Readers are not disturbed: one that
// has a removed record open goes on, one that comes later misses. One janitor of all processes
// works at a time. Blocks for a look at every name (about 3 us each). UNAVAILABLE when the store
// cannot be listed.
absl::StatusOr<SweepReport> Sweep(RecordStore* store, const SweepLimits& limits);

}  // namespace sinter

#endif  // SINTER_CACHE_JANITOR_JANITOR_H_
