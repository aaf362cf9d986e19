// WeakCache: what is alive in this process, by key. Keeps nothing alive itself.
#ifndef SINTER_SRC_ENGINE_WEAK_CACHE_H_
#define SINTER_SRC_ENGINE_WEAK_CACHE_H_

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace sinter {

// Thread-safe. Dead entries are swept whenever the table has doubled, so its size stays within
// twice the living ones.
template <typename T>
class WeakCache {
 public:
  std::shared_ptr<const T> Find(const std::string& key) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = entries_.find(key);
    return entry == entries_.end() ? nullptr : entry->second.lock();
  }

  void Insert(const std::string& key, const std::shared_ptr<const T>& value) {
    std::lock_guard<std::mutex> lock(mutex_);
    entries_[key] = value;
    if (entries_.size() < sweep_at_) return;
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto current = it++;
      if (current->second.expired()) entries_.erase(current);
    }
    sweep_at_ = std::max<size_t>(kFirstSweep, 2 * entries_.size());
  }

  void Erase(const std::string& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    entries_.erase(key);
  }

 private:
  static constexpr size_t kFirstSweep = 64;
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const T>> entries_;
  size_t sweep_at_ = kFirstSweep;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_WEAK_CACHE_H_
