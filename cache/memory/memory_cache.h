// The process's own tier: records that were just made or read, newest kept, bounded in bytes.
#ifndef SINTER_CACHE_MEMORY_MEMORY_CACHE_H_
#define SINTER_CACHE_MEMORY_MEMORY_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Thread-safe; one mutex, held for no longer than a map look-up (payloads are copied outside it).
// Invariants: index_ and order_ hold the same entries; bytes_ is the sum of their costs and at most
// the cap.
class MemoryCache {
 public:
  using Id = std::pair<RecordKind, Digest>;

  explicit MemoryCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // The payload, or null. A hit becomes the newest.
  std::shared_ptr<const std::string> Get(const Id& id);
  // Replaces. An entry that costs more than the whole cap is not kept (and drops the one it
  // replaces).
  void Put(const Id& id, absl::string_view payload);
  void Erase(const Id& id);

  uint64_t bytes() const;
  uint64_t entries() const;
  // What an entry counts against the cap, bookkeeping included.
  static uint64_t CostOf(uint64_t payload_bytes) { return payload_bytes + 256; }

 private:
  struct Entry {
    Id id;
    std::shared_ptr<const std::string> payload;
  };
  void EraseLocked(const Id& id);

  const uint64_t max_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> order_;  // newest first
  std::map<Id, std::list<Entry>::iterator> index_;
  uint64_t bytes_ = 0;
};

}  // namespace sinter

#endif  // SINTER_CACHE_MEMORY_MEMORY_CACHE_H_
