#include "cache/memory/memory_cache.h"

namespace sinter {

std::shared_ptr<const std::string> MemoryCache::Get(const Id& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto it = index_.find(id);
  if (it == index_.end()) return nullptr;
  order_.splice(order_.begin(), order_, it->second);
  return it->second->payload;
}

void MemoryCache::Put(const Id& id, absl::string_view payload) {
  const uint64_t cost = CostOf(payload.size());
  if (cost > max_bytes_) return Erase(id);
  auto copy = std::make_shared<const std::string>(payload);
  std::lock_guard<std::mutex> lock(mutex_);
  EraseLocked(id);
  order_.push_front(Entry{id, std::move(copy)});
  index_[id] = order_.begin();
  bytes_ += cost;
  while (bytes_ > max_bytes_) EraseLocked(Id(order_.back().id));
}

void MemoryCache::Erase(const Id& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  EraseLocked(id);
}

void MemoryCache::EraseLocked(const Id& id) {
  const auto it = index_.find(id);
  if (it == index_.end()) return;
  bytes_ -= CostOf(it->second->payload->size());
  order_.erase(it->second);
  index_.erase(it);
}

uint64_t MemoryCache::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

uint64_t MemoryCache::entries() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.size();
}

}  // namespace sinter
