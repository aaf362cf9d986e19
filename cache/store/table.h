// One record as one sealed LevelDB table, byte for byte what LevelDB's builder makes of it, and the
// reader of this one layout, which allocates nothing for what it has not checked.
//
// The entry's key is an internal key of LevelDB (user key, then 8 bytes: sequence << 8 | type),
// ordered as LevelDB orders them, so a plain leveldb::DB can adopt the files. Blocks are
// uncompressed and carry LevelDB's CRC32C. Invariant: exactly one data block with one entry.
// Readers refuse anything else.
#ifndef SINTER_CACHE_STORE_TABLE_H_
#define SINTER_CACHE_STORE_TABLE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/table_blocks.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// The user key of a record: "k/" or "p/", then the 32 raw bytes of the SHA-256 of its canonical
// key.
std::string TableUserKey(RecordKind kind, const Digest& digest);

// The whole file. RESOURCE_EXHAUSTED when memory runs out.
absl::StatusOr<std::string> BuildTable(absl::string_view user_key, absl::string_view value);
// The same for a value that `append` puts behind what the file holds so far: exactly `value_bytes`
// bytes. Spares a copy.
absl::StatusOr<std::string> BuildTable(absl::string_view user_key, uint64_t value_bytes,
                                       const std::function<void(std::string*)>& append);

struct TableEntry {
  absl::string_view user_key, value;  // borrowed from the file
};

// The single entry of `file`, all checksums checked. DATA_LOSS with the cause for anything unsound,
// RESOURCE_EXHAUSTED when memory runs out. Trusts nothing in `file`.
absl::StatusOr<TableEntry> ReadTable(absl::string_view file);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_H_
