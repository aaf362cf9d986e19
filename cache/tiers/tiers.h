// The order of tiers behind the Store port: memory, then the local folder. The one cache header the
// engine includes.
#ifndef SINTER_CACHE_TIERS_TIERS_H_
#define SINTER_CACHE_TIERS_TIERS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cache/key/key.h"
#include "cache/record/kernel_record.h"
#include "cache/store/inspect.h"
#include "src/base/log.h"
#include "src/base/ports.h"

namespace sinter {

struct TierOptions {
  std::string local_root;  // absolute folder of the local tier; "" = no local tier
  uint64_t memory_bytes = uint64_t{256} << 20;  // cap of the memory tier; 0 = none
  std::string producer;  // recorded in every entry: library version and the like
  bool sync = true;      // see LocalStoreOptions
  LogSink log;           // one warning when the local tier is off; one per damaged or refused entry
};

// Never fails: an unusable folder means memory only, with one warning. Synchronous: Put returns
// after the local write. A lookup is counted once, as a hit of its tier or a miss with its reason;
// with the local tier off, what memory lacks is kDisabled (kRefusedOwner when the folder was
// refused for its owner or mode). StoreStats.quarantined counts Quarantine calls and files that a
// lookup found damaged and moved aside. LockForBuild returns null when the lock is not held;
// without a local tier that is at once.
std::unique_ptr<Store> MakeTieredStore(const TierOptions& options);

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_TIERS_H_
