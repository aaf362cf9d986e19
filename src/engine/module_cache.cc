#include "src/engine/module_cache.h"

#include <iterator>
#include <utility>

namespace sinter {

void ModuleCache::Take(Order::iterator entry, Order* doomed) {
  by_key_.erase(entry->key);
  bytes_ -= entry->bytes;
  ++unloaded_;
  doomed->splice(doomed->end(), order_, entry);
}

// A use count of one cannot grow but through this table's own weak references, whose finders then
// hold the module themselves: dropping it here is right either way.
void ModuleCache::MakeRoom(Order* doomed) {
  auto entry = order_.end();
  while (bytes_ > max_bytes_ && entry != order_.begin()) {
    const auto current = --entry;
    if (current->module.use_count() > 1) continue;
    ++entry;
    Take(current, doomed);
  }
}

void ModuleCache::Add(const std::string& key, Module module, uint64_t bytes) {
  Order doomed;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto old = by_key_.find(key);
  if (old != by_key_.end()) Take(old->second, &doomed);
  order_.push_front({key, std::move(module), bytes});
  by_key_[key] = order_.begin();
  bytes_ += bytes;
  MakeRoom(&doomed);
}

void ModuleCache::Touch(const std::string& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) order_.splice(order_.begin(), order_, found->second);
}

void ModuleCache::Released(const std::vector<std::string>& keys) {
  Order doomed;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& key : keys) {
    const auto found = by_key_.find(key);
    if (found != by_key_.end()) order_.splice(order_.begin(), order_, found->second);
  }
  MakeRoom(&doomed);
}

void ModuleCache::Forget(const std::string& key) {
  Order doomed;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) Take(found->second, &doomed);
}

void ModuleCache::Clear() {
  Order doomed;
  std::lock_guard<std::mutex> lock(mutex_);
  by_key_.clear();
  bytes_ = 0;
  unloaded_ += order_.size();
  doomed.swap(order_);
}

ModuleStats ModuleCache::Stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return {by_key_.size(), bytes_, unloaded_};
}

}  // namespace sinter
