// PackTable: the LevelDB table of a pack, a block for each record, as it is written. Byte for byte
// what leveldb::TableBuilder makes of the same keys in bytewise order when it is flushed after
// each; tests compare.
#ifndef SINTER_CACHE_PACK_PACK_TABLE_H_
#define SINTER_CACHE_PACK_PACK_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cache/store/table_blocks.h"

namespace sinter {

// Keeps the index in memory, some 50 bytes a record, and no record. Throws std::bad_alloc, and
// loses nothing then. Not thread-safe.
class PackTable {
 public:
  // The bytes of the next block. Keys ascend, bytewise, and none comes twice or is empty.
  std::string Add(absl::string_view key, absl::string_view value);
  // What follows the last block. Nothing is added afterwards.
  std::string Finish();

 private:
  // The last block gets the name `key` in the index.
  void Index(absl::string_view key);

  std::string index_;               // entries of the index block so far
  std::vector<uint32_t> restarts_;  // where each begins
  std::string last_key_;
  BlockSpan last_;
  uint64_t bytes_ = 0;  // of all blocks so far
};

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_TABLE_H_
