// The process's own tier: records that were just made or read. The newest are kept, up to a number
// of bytes.
#ifndef SINTER_CACHE_TIERS_MEMORY_CACHE_H_
#define SINTER_CACHE_TIERS_MEMORY_CACHE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/ports.h"

namespace sinter {

// Thread-safe; one mutex, held for no longer than a map look-up; payloads are shared, not copied.
// Usable in the child of a fork. Invariants: index and order hold the same entries; bytes is the
// sum of their costs and at most the cap.
class MemoryCache {
 public:
  using Id = std::pair<RecordKind, Digest>;
  using Payload = std::shared_ptr<const SharedBytes>;

  explicit MemoryCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // The payload, or null. A hit becomes the newest.
  Payload Get(const Id& id);
  // Replaces an older payload. If the entry costs more than the whole cap it is not kept, and the
  // older one is dropped.
  void Put(const Id& id, Payload payload);
  void Put(const Id& id, const SharedBytes& payload);
  void Erase(const Id& id);

  uint64_t bytes() const;
  uint64_t entries() const;
  // Bytes of the cap that an entry takes: its payload and 256 for bookkeeping.
  static uint64_t CostOf(uint64_t payload_bytes) { return payload_bytes + 256; }

 private:
  struct Entry {
    Id id;
    Payload payload;
  };
  struct State {
    std::list<Entry> order;  // newest first
    std::map<Id, std::list<Entry>::iterator> index;
    uint64_t bytes = 0;
  };
  static void EraseFrom(State* state, const Id& id);

  const uint64_t max_bytes_;
  mutable ForkLocal<State> state_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_MEMORY_CACHE_H_
