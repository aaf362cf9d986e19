// The parts that a LevelDB table is made of: blocks without compression, the meta block of a table
// without filters, the footer. Written byte for byte as LevelDB's builder writes them, but nothing
// is lost when memory runs out: its builder is compiled without exceptions. What reads them follows
// nothing that it has not bounded.
#ifndef SINTER_CACHE_STORE_TABLE_BLOCKS_H_
#define SINTER_CACHE_STORE_TABLE_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

constexpr uint64_t kTableFooterBytes = 48;
constexpr uint64_t kBlockTrailerSize = 5;  // compression type, CRC32C
constexpr uint64_t kTableMagic = 0xdb4775248b80fb57u;
constexpr char kNoCompression = 0;

// The meta block of a table without filters, with its trailer: no entry.
constexpr absl::string_view kMetaBlock("\0\0\0\0\1\0\0\0\0\xc0\xf2\xa1\xb0", 13);

// A block's contents, without its trailer.
struct BlockSpan {
  uint64_t offset = 0, size = 0;
};

void PutVarint(uint64_t value, std::string* out);
void PutHandle(const BlockSpan& span, std::string* out);

// An entry that shares nothing with the one before it.
void PutEntry(absl::string_view key, absl::string_view value, std::string* out);

// Appends a block of this one entry, with its trailer; where its contents lie in `out`.
BlockSpan PutBlock(absl::string_view key, absl::string_view value, std::string* out);
// The same for a value that `append` puts behind what `out` holds: exactly `value_bytes` bytes.
BlockSpan PutBlock(absl::string_view key, uint64_t value_bytes,
                   const std::function<void(std::string*)>& append, std::string* out);

// Ends the block whose entries and restart points `out` holds from `offset` on: appends the
// trailer.
BlockSpan SealBlock(uint64_t offset, std::string* out);

// The last kTableFooterBytes of a table.
void PutFooter(const BlockSpan& meta, const BlockSpan& index, std::string* out);

// A varint of at most `max_bytes` bytes in its only shortest form; false at damage.
bool TakeVarint(absl::string_view* in, size_t max_bytes, uint64_t* out);
bool TakeHandle(absl::string_view* in, BlockSpan* out);

// What stands before the key of an entry, in this order; no bound of them is checked.
struct EntryLengths {
  uint64_t shared = 0;  // bytes of the key before
  uint64_t key = 0;     // bytes of its own
  uint64_t value = 0;
};
bool TakeLengths(absl::string_view* in, EntryLengths* out);

// Whether the block and its trailer end at `end` or before, whatever the handle says.
bool EndsBy(const BlockSpan& span, uint64_t end);

struct TableFooter {
  BlockSpan meta, index;
};
// `footer` is exactly the last kTableFooterBytes of a table of `file_bytes`. DATA_LOSS unless both
// blocks lie before it.
absl::StatusOr<TableFooter> ReadFooter(absl::string_view footer, uint64_t file_bytes);

// `block` is a block with its trailer: uncompressed, and its checksum holds.
absl::Status CheckBlockCrc(absl::string_view block, absl::string_view what);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_BLOCKS_H_
