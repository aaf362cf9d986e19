// ModuleCache: keeps what is loaded on the device after its last user has let it go, up to a cap.
#ifndef SINTER_SRC_ENGINE_MODULE_CACHE_H_
#define SINTER_SRC_ENGINE_MODULE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sinter {

constexpr uint64_t kDefaultModuleCacheBytes = uint64_t{1} << 30;

struct ModuleStats {
  uint64_t loaded = 0, bytes = 0;  // now, in use or not
  uint64_t unloaded = 0;           // so far
};

// Modules in order of their last use. While all together pass the cap, the longest unused of those
// that nobody else holds go; what is in use stays, whatever it takes. Thread-safe. A module is let
// go outside the lock, on the thread of the call that made room: never in a CUDA callback, as long
// as no call here is.
class ModuleCache {
 public:
  using Module = std::shared_ptr<const void>;

  explicit ModuleCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ModuleCache(const ModuleCache&) = delete;
  ModuleCache& operator=(const ModuleCache&) = delete;

  // A module that was just loaded; one of the same key is replaced.
  void Add(const std::string& key, Module module, uint64_t bytes);
  // It is used again.
  void Touch(const std::string& key);
  // A user of these keys has gone. Called after it dropped its modules.
  void Released(const std::vector<std::string>& keys);
  // No longer kept here: for a kernel that was found wrong, and at the end.
  void Forget(const std::string& key);
  void Clear();

  ModuleStats Stats() const;

 private:
  struct Entry {
    std::string key;
    Module module;
    uint64_t bytes = 0;
  };
  using Order = std::list<Entry>;  // the last used first

  // Moves what must go to `doomed`, to be destroyed after the lock. mutex_ is held.
  void MakeRoom(Order* doomed);
  void Take(Order::iterator entry, Order* doomed);

  const uint64_t max_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  Order order_;
  absl::flat_hash_map<std::string, Order::iterator> by_key_;
  uint64_t bytes_ = 0, unloaded_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_MODULE_CACHE_H_
