// Recent: the values that were inserted last, up to a bound.
#ifndef SINTER_SRC_BASE_RECENT_H_
#define SINTER_SRC_BASE_RECENT_H_

#include <algorithm>
#include <cstddef>
#include <list>
#include <string>
#include <utility>

#include "src/base/fork_local.h"

namespace sinter {

// Thread-safe. A look-up compares at most `kMost` keys.
template <typename Value, size_t kMost>
class Recent {
 public:
  // An empty value if there is none under this key.
  Value Find(const std::string& key) {
    const auto entries = entries_.Lock();
    const auto known = std::find_if(entries->begin(), entries->end(),
                                    [&](const Entry& entry) { return entry.first == key; });
    return known == entries->end() ? Value() : known->second;
  }
  // The oldest value goes if there are more than kMost.
  void Insert(const std::string& key, Value value) {
    const auto entries = entries_.Lock();
    entries->emplace_back(key, std::move(value));
    if (entries->size() > kMost) entries->pop_front();
  }
  void Erase(const std::string& key) {
    entries_.Lock()->remove_if([&](const Entry& entry) { return entry.first == key; });
  }

 private:
  using Entry = std::pair<std::string, Value>;
  ForkLocal<std::list<Entry>> entries_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_RECENT_H_
