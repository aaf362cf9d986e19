// ModuleCache: keeps modules loaded on the device after their last user has gone, up to a cap.
// WeakCache: finds what is alive in this process by key.
#ifndef SINTER_SRC_ENGINE_MODULE_CACHE_H_
#define SINTER_SRC_ENGINE_MODULE_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/fork_local.h"
#include "src/engine/control.h"

namespace sinter {

constexpr uint64_t kDefaultModuleCacheBytes = uint64_t{1} << 30;

struct ModuleStats {
  uint64_t loaded = 0, bytes = 0;  // now, in use or not
  uint64_t unloaded = 0;           // so far
};

// Keeps modules in order of last use. While all together exceed the cap, it drops the longest
// unused of those that nobody else holds; modules in use stay, whatever they take. Thread-safe; the
// child of a fork starts empty where another thread was inside. A module is dropped outside the
// lock, on the thread of the call that made room; so it never happens in a CUDA callback, as long
// as none calls this.
class ModuleCache {
 public:
  using Module = std::shared_ptr<const void>;

  // `events` (may be null) outlives the cache.
  explicit ModuleCache(uint64_t max_bytes, const EventSink* events = nullptr)
      : max_bytes_(max_bytes), events_(events) {}
  ModuleCache(const ModuleCache&) = delete;
  ModuleCache& operator=(const ModuleCache&) = delete;

  // A module that was just loaded; one of the same key is replaced.
  void Add(const std::string& key, Module module, uint64_t bytes);
  // Marks it as just used.
  void Touch(const std::string& key);
  // A user of these keys has gone. Call it after the user dropped its modules.
  void Released(const std::vector<std::string>& keys);
  // Stops keeping it: for a kernel that was found wrong, and at the end.
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

  // Modules to be dropped. Declared before the lock, so that they are reported and destroyed after
  // it.
  struct Doomed {
    const EventSink* events;
    Order modules;
    ~Doomed();
  };
  struct Table {
    Order order;
    std::unordered_map<std::string, Order::iterator> by_key;
    uint64_t bytes = 0, unloaded = 0;

    void Use(const std::string& key);  // moves it to the front
    void Take(Order::iterator entry, Doomed* doomed);
  };

  void MakeRoom(Table* table, Doomed* doomed);

  const uint64_t max_bytes_;
  const EventSink* const events_;
  mutable ForkLocal<Table> table_;
};

// Thread-safe, and usable in the child of a fork. Dead entries are removed whenever the table has
// doubled, so its size stays within twice the number of living ones.
template <typename T>
class WeakCache {
 public:
  std::shared_ptr<const T> Find(const std::string& key) const {
    const auto table = table_.Lock();
    const auto entry = table->entries.find(key);
    return entry == table->entries.end() ? nullptr : entry->second.lock();
  }

  void Insert(const std::string& key, const std::shared_ptr<const T>& value) {
    const auto table = table_.Lock();
    auto& entries = table->entries;
    entries[key] = value;
    if (entries.size() < table->sweep_at) return;
    for (auto it = entries.begin(); it != entries.end();) {
      const auto current = it++;
      if (current->second.expired()) entries.erase(current);
    }
    table->sweep_at = std::max<size_t>(kFirstSweep, 2 * entries.size());
  }

  void Erase(const std::string& key) { table_.Lock()->entries.erase(key); }

 private:
  static constexpr size_t kFirstSweep = 64;
  struct Table {
    std::unordered_map<std::string, std::weak_ptr<const T>> entries;
    size_t sweep_at = kFirstSweep;
  };

  mutable ForkLocal<Table> table_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_MODULE_CACHE_H_
