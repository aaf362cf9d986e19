// Single flight: who builds a key, and who tidies up. It only saves work: a lost lock costs one
// duplicate build, never a wrong record.
//
// One byte per key in one empty file, at a 62-bit hash of the key's digest, is locked by an
// open-file-description lock. Each holder has its own descriptor, so threads, stores and processes
// all exclude one another in the same way, and the kernel releases the lock when the holder dies.
// The file is <root>/v1/locks. On a network file system, where locks can hang and the locks of dead
// clients stay, the file is in a folder of this host and excludes only this host's processes.
#ifndef SINTER_CACHE_STORE_BUILD_LOCKS_H_
#define SINTER_CACHE_STORE_BUILD_LOCKS_H_

#include <cstdint>
#include <memory>

#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Tries, then sleeps with growing pauses (an eighth of the wait so far, 50 us to 5 ms), until this
// caller holds the key or `budget_us` has passed. The handle holds the lock. Null: not held,
// because the budget passed, or at once because the folder cannot be locked. A copy of the handle
// in the child of a fork releases nothing.
std::shared_ptr<void> LockKey(std::shared_ptr<const StoreDirectory> dir, RecordKind kind,
                              const Digest& digest, int64_t budget_us);

// Held while one process tidies the folder. Null at once if another process holds it.
std::shared_ptr<void> LockJanitorByte(std::shared_ptr<const StoreDirectory> dir);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_BUILD_LOCKS_H_
