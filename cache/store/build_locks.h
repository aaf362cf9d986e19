// Single flight: who builds a key; and who tidies up. An optimisation only; losing a lock costs one
// duplicate build, never a wrong record.
//
// One byte per key of one empty file, at a 62-bit hash of the key's digest, locked by an
// open-file-description lock. Each holder has a descriptor of its own, so threads, stores and
// processes all exclude one another by the same means, and the kernel releases the lock when the
// holder dies. The file is <root>/v1/locks. On a network file system, where locks can hang and a
// dead client's locks stay, it lies in a folder of this host, and excludes this host's processes.
#ifndef SINTER_CACHE_STORE_BUILD_LOCKS_H_
#define SINTER_CACHE_STORE_BUILD_LOCKS_H_

#include <cstdint>
#include <memory>

#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Tries, then sleeps with growing pauses (an eighth of the wait so far, 50 us to 5 ms), until this
// caller holds the key or `budget_us` passed. The handle holds the lock; null means: not held
// (budget passed, or the folder cannot be locked, which returns at once). A copy of the handle that
// a fork() left in a child releases nothing.
std::shared_ptr<void> LockKey(std::shared_ptr<const StoreDirectory> dir, RecordKind kind,
                              const Digest& digest, int64_t budget_us);

// Held while one process tidies the folder. Null at once when another does.
std::shared_ptr<void> LockJanitorByte(std::shared_ptr<const StoreDirectory> dir);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_BUILD_LOCKS_H_
