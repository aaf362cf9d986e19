#include "src/engine/module_cache.h"

#include <new>
#include <utility>

#include "src/engine/keys.h"

namespace sinter {

ModuleCache::Doomed::~Doomed() {
  if (events == nullptr || !events->Wanted()) return;
  try {
    for (const Entry& entry : modules) {
      EngineEvent event(EventKind::kUnload, ShortName(entry.key));
      event.bytes = entry.bytes;
      events->Tell(event);
    }
  } catch (const std::bad_alloc&) {  // an event is not worth a process
  }
}

void ModuleCache::Table::Use(const std::string& key) {
  const auto found = by_key.find(key);
  if (found != by_key.end()) order.splice(order.begin(), order, found->second);
}

void ModuleCache::Table::Take(Order::iterator entry, Doomed* doomed) {
  by_key.erase(entry->key);
  bytes -= entry->bytes;
  ++unloaded;
  doomed->modules.splice(doomed->modules.end(), order, entry);
}

// Only this table's weak references can raise a use count of one. Whoever finds the module through
// them then holds it, so it may be dropped here in either case.
void ModuleCache::MakeRoom(Table* table, Doomed* doomed) {
  auto entry = table->order.end();
  while (table->bytes > max_bytes_ && entry != table->order.begin()) {
    const auto current = --entry;
    if (current->module.use_count() > 1) continue;
    ++entry;
    table->Take(current, doomed);
  }
}

void ModuleCache::Add(const std::string& key, Module module, uint64_t bytes) {
  Doomed doomed{events_, {}};
  const auto table = table_.Lock();
  const auto old = table->by_key.find(key);
  if (old != table->by_key.end()) table->Take(old->second, &doomed);
  table->order.push_front({key, std::move(module), bytes});
  table->by_key[key] = table->order.begin();
  table->bytes += bytes;
  MakeRoom(&*table, &doomed);
}

void ModuleCache::Touch(const std::string& key) { table_.Lock()->Use(key); }

void ModuleCache::Released(const std::vector<std::string>& keys) {
  Doomed doomed{events_, {}};
  const auto table = table_.Lock();
  for (const std::string& key : keys) table->Use(key);
  MakeRoom(&*table, &doomed);
}

void ModuleCache::Forget(const std::string& key) {
  Doomed doomed{events_, {}};
  const auto table = table_.Lock();
  const auto found = table->by_key.find(key);
  if (found != table->by_key.end()) table->Take(found->second, &doomed);
}

void ModuleCache::Clear() {
  Doomed doomed{events_, {}};
  const auto table = table_.Lock();
  table->by_key.clear();
  table->bytes = 0;
  table->unloaded += table->order.size();
  doomed.modules.swap(table->order);
}

ModuleStats ModuleCache::Stats() const {
  const auto table = table_.Lock();
  return {table->by_key.size(), table->bytes, table->unloaded};
}

}  // namespace sinter
