// The parts that a LevelDB table is written of: blocks without compression, the meta block of a
// table without filters, the footer. Byte for byte what LevelDB's builder writes, but nothing is
// lost when memory runs out: its builder is compiled without exceptions.
#ifndef SINTER_CACHE_STORE_TABLE_BLOCKS_H_
#define SINTER_CACHE_STORE_TABLE_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <string>

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

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_BLOCKS_H_
