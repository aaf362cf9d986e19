// TableMap: a LevelDB table of many blocks, read with everything bounded before it is followed, so
// that LevelDB, which trusts a block whose checksum holds, is shown nothing that could lead it
// astray: handles past the end, restart points inside entries, lengths that overflow, keys too
// short for its comparator or out of order.
#ifndef SINTER_CACHE_STORE_TABLE_MAP_H_
#define SINTER_CACHE_STORE_TABLE_MAP_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/table_blocks.h"
#include "src/base/shared_bytes.h"

namespace sinter {

enum class KeyOrder {
  kBytes,     // of a pack's table: user keys
  kInternal,  // of a database's: user keys, then 8 bytes (sequence << 8 | type), newest first
};

// Limits of a database. A pack needs none: its manifest gives the size of its index.
constexpr uint64_t kMostTableIndexBytes = uint64_t{16} << 20;
constexpr uint64_t kMostTableKeyBytes = 1024;

// Exactly `size` bytes at `offset` of a table, or an error.
using TableBytes = std::function<absl::StatusOr<SharedBytes>(uint64_t offset, uint64_t size)>;

// Immutable, thread-safe.
class TableMap {
 public:
  struct Block {
    absl::string_view last;  // no key of the block is above it, all of the next one are
    BlockSpan span;
  };

  // Reads footer, index, meta index and filter, and no data block. DATA_LOSS naming what is wrong.
  // The parts adjoin: data blocks from byte 0, the filter, the meta index, the index, the footer.
  // Blocks are uncompressed. May throw bad_alloc, for at most three times `most_index_bytes`.
  static absl::StatusOr<TableMap> Read(const TableBytes& read, uint64_t file_bytes, KeyOrder order,
                                       uint64_t most_index_bytes);

  const std::vector<Block>& blocks() const { return blocks_; }
  // Where the last data block ends.
  uint64_t data_bytes() const { return data_bytes_; }

  // `block` is the data block `i` with its trailer. DATA_LOSS unless its entries are whole, their
  // keys ascend and lie where the index says, and its restart points are entries. The checksum is
  // not asked. `first` and `last` (may be null) receive its outermost keys.
  absl::Status CheckBlock(size_t i, absl::string_view block, std::string* first,
                          std::string* last) const;

  // `bytes` are what the table holds at `offset`. OK when that is one of its parts, whole and, if a
  // data block, sound; DATA_LOSS for anything else that might be asked for.
  absl::Status CheckPart(uint64_t offset, absl::string_view bytes) const;

 private:
  absl::Status ReadIndex(const TableBytes& read, const BlockSpan& index);
  absl::Status ReadMetaIndex(const TableBytes& read, const BlockSpan& meta);

  KeyOrder order_ = KeyOrder::kBytes;
  uint64_t file_bytes_ = 0, data_bytes_ = 0, most_index_bytes_ = 0;
  SharedBytes footer_, index_;
  std::vector<Block> blocks_;      // their keys are views of index_
  std::vector<BlockSpan> others_;  // filter, meta index, index
};

// Below 0, 0 or above: how `a` and `b` stand in `order`.
int CompareTableKeys(KeyOrder order, absl::string_view a, absl::string_view b);
// DATA_LOSS for what LevelDB's comparator of internal keys does not bear.
absl::Status CheckTableKey(KeyOrder order, absl::string_view key);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_MAP_H_
