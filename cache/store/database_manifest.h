// Reads which tables a LevelDB manifest lists, so that they can be checked before LevelDB opens
// them.
#ifndef SINTER_CACHE_STORE_DATABASE_MANIFEST_H_
#define SINTER_CACHE_STORE_DATABASE_MANIFEST_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

constexpr uint64_t kMostSequence = (uint64_t{1} << 56) - 1;

struct ManifestTable {
  int level = 0;
  uint64_t bytes = 0;
  std::string smallest, largest;  // internal keys
};

// Adds up the edits of a manifest. DATA_LOSS for what would lead LevelDB astray: keys too short for
// its comparator, numbers that its counters do not bear, a table named twice, levels whose tables
// overlap.
class DatabaseManifest {
 public:
  absl::Status Add(absl::string_view edit);
  // Once all edits were added.
  absl::Status Check() const;
  // By file number.
  const std::map<uint64_t, ManifestTable>& tables() const { return tables_; }

 private:
  using Place = std::pair<int, uint64_t>;  // level, file number

  absl::Status Apply(const std::set<Place>& removed,
                     const std::map<uint64_t, ManifestTable>& added);

  std::map<uint64_t, ManifestTable> tables_;
  std::set<Place> named_;
  uint64_t next_file_ = 0, last_sequence_ = 0, log_ = 0;
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_MANIFEST_H_
