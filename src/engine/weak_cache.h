// WeakCache: what is alive in this process, by key. Keeps nothing alive itself.
#ifndef SINTER_SRC_ENGINE_WEAK_CACHE_H_
#define SINTER_SRC_ENGINE_WEAK_CACHE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>

#include "src/base/fork_local.h"

namespace sinter {

// Thread-safe, and usable in the child of a fork. Dead entries are swept whenever the table has
// doubled, so its size stays within twice the living ones.
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

#endif  // SINTER_SRC_ENGINE_WEAK_CACHE_H_
