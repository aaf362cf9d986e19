#include "cache/tiers/memory_cache.h"

namespace sinter {

MemoryCache::Payload MemoryCache::Get(const Id& id) {
  const auto state = state_.Lock();
  const auto it = state->index.find(id);
  if (it == state->index.end()) return nullptr;
  state->order.splice(state->order.begin(), state->order, it->second);
  return it->second->payload;
}

void MemoryCache::Put(const Id& id, const SharedBytes& payload) {
  if (CostOf(payload.size()) > max_bytes_) return Erase(id);
  Put(id, std::make_shared<const SharedBytes>(payload));
}

void MemoryCache::Put(const Id& id, Payload payload) {
  const uint64_t cost = CostOf(payload->size());
  if (cost > max_bytes_) return Erase(id);
  std::list<Entry> fresh;
  fresh.push_front(Entry{id, std::move(payload)});
  const auto state = state_.Lock();
  EraseFrom(&*state, id);
  state->index[id] = fresh.begin();
  state->order.splice(state->order.begin(), fresh);
  state->bytes += cost;
  while (state->bytes > max_bytes_) EraseFrom(&*state, Id(state->order.back().id));
}

void MemoryCache::Erase(const Id& id) {
  const auto state = state_.Lock();
  EraseFrom(&*state, id);
}

void MemoryCache::EraseFrom(State* state, const Id& id) {
  const auto it = state->index.find(id);
  if (it == state->index.end()) return;
  state->bytes -= CostOf(it->second->payload->size());
  state->order.erase(it->second);
  state->index.erase(it);
}

uint64_t MemoryCache::bytes() const { return state_.Lock()->bytes; }

uint64_t MemoryCache::entries() const { return state_.Lock()->index.size(); }

}  // namespace sinter
