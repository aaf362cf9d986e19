// Sealed tables: what leveldb::TableBuilder writes and leveldb::Table reads, without leveldb::DB.
// Our own FileOps read and write the files, so that LevelDB's Env starts no thread, counts no open
// files, maps nothing and locks nothing, and everything works in the child of a fork.
//
// LevelDB trusts a block whose checksum is right, so it gets only blocks that table_check found to
// have the form written here. Every checksum is checked, or the caller vouches for the bytes
// (packs, by SHA-256). Bytes that no reader uses, such as the meta block, are not checked. LevelDB
// is compiled without exceptions: when memory runs out inside it, std::bad_alloc passes through and
// what LevelDB held is leaked.
#ifndef SINTER_CACHE_STORE_TABLE_H_
#define SINTER_CACHE_STORE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// The user key of a record: "k/" or "p/", then the 32 raw bytes of the SHA-256 of its canonical
// key.
std::string TableUserKey(RecordKind kind, const Digest& digest);

// Writes a table of one record, as the local store keeps it. Its key in the file is an internal key
// of LevelDB (the user key, then 8 bytes: sequence << 8 | type), ordered as LevelDB orders them, so
// that a plain leveldb::DB can adopt the files. Equal records make equal files. `write` gets the
// file's bytes in order, in few pieces; its first error ends the writing and is returned. Throws
// std::bad_alloc, as does everything below.
using TableSink = std::function<absl::Status(absl::string_view piece)>;
absl::Status WriteTable(absl::string_view user_key, absl::string_view value,
                        const TableSink& write);
constexpr uint64_t kMostTableOverhead = 1024;  // of such a file, in addition to its value

struct TableEntry {
  std::string user_key;
  absl::string_view value;  // points into the file
};

// The only entry of such a table; the checksums of all bytes read are checked. DATA_LOSS with the
// cause for damage, and for more than one entry.
absl::StatusOr<TableEntry> ReadTable(absl::string_view file);

// Writes a table of many records, one block each, keys in bytewise order. The bytes are appended to
// the caller's string, which the caller may empty between calls. Not thread-safe.
class TableWriter {
 public:
  explicit TableWriter(std::string* out);  // borrowed
  ~TableWriter();
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;

  // Appends the block of this record. Keys are not empty, and each is greater than the one before.
  void Add(absl::string_view key, absl::string_view value);
  // Appends what follows the last block. Call it once, last.
  void Finish();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// Reads a table that TableWriter wrote. Immutable, thread-safe.
class TableReader {
 public:
  // Reads exactly `bytes` bytes of the table at `offset` and verifies them. Thread-safe.
  using Source = std::function<absl::Status(uint64_t offset, char* to, size_t bytes)>;

  // Reads the footer and the index. DATA_LOSS for damage, found here or by `source`; UNAVAILABLE
  // for any other error of `source`.
  static absl::StatusOr<TableReader> Open(Source source, uint64_t table_bytes);

  // The value under `key`, which keeps its memory alive. NOT_FOUND; other errors as Open.
  absl::StatusOr<SharedBytes> Find(absl::string_view key) const;

 private:
  struct Opened;
  std::shared_ptr<const Opened> opened_;
};

// Which bytes of a table LevelDB may see. LevelDB trusts every length in a block whose checksum is
// right, adds two of them in 32 bits, unpacks a block before anybody can ask how large it becomes,
// and allocates whatever size the index names. So each block is checked here first, and only the
// form in which our own tables are written passes.

constexpr uint64_t kTableFooterBytes = 48;
constexpr uint64_t kBlockTrailerBytes = 5;  // compression type, CRC32C
constexpr uint64_t kMostBlockBytes = uint64_t{256} << 20;

// Where the index of a table of `table_bytes` begins, according to the footer; the index ends where
// the footer begins. DATA_LOSS. Checks no checksum.
absl::StatusOr<uint64_t> CheckFooter(absl::string_view footer, uint64_t table_bytes);

enum class BlockRole {
  kRecord,  // exactly one entry
  kIndex,   // any number; their values name blocks that adjoin from byte 0 and end before the index
};

// `block` with its trailer must be uncompressed, filled by its entries, of which none shares a
// prefix with the one before, and have a restart point for each. `index_at` is the result of
// CheckFooter. DATA_LOSS names the fault.
absl::Status CheckBlock(absl::string_view block, BlockRole role, uint64_t index_at);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_H_
