// One copy of the cache as a library of its own: two of these in one process are two copies.
#include "cache/tiers/tiers.h"

using sinter::RecordKind;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void* copy_open(const char* root) {
  return std::make_unique<sinter::TieredStore>(
             sinter::TierOptions{.local_root = root, .memory_bytes = 0, .sync = false})
      .release();
}

EXPORT void copy_close(void* store) { delete static_cast<sinter::TieredStore*>(store); }

EXPORT void copy_put(void* store, const char* key, const char* value) {
  auto* tiers = static_cast<sinter::TieredStore*>(store);
  tiers->Put(RecordKind::kKernel, key, value);
  tiers->Flush();
}

EXPORT int copy_has(void* store, const char* key, const char* value) {
  const sinter::Lookup lookup =
      static_cast<sinter::TieredStore*>(store)->Get(RecordKind::kKernel, key);
  return lookup.hit && lookup.payload == value ? 1 : 0;
}

// 1 when this copy may build `key` now; the lock is given back at once.
EXPORT int copy_may_build(void* store, const char* key) {
  auto lock = static_cast<sinter::TieredStore*>(store)->LockForBuild(RecordKind::kKernel, key, 0);
  return lock != nullptr ? 1 : 0;
}
