// Sealed tables: what leveldb::TableBuilder writes and leveldb::Table reads, without leveldb::DB.
// Files are read and written by our own FileOps, so LevelDB's Env starts no thread here, counts no
// open files, maps nothing and locks nothing, and all of it works in the child of a fork.
//
// LevelDB believes a block whose checksum holds, so it sees none before table_check has found it in
// the form that is written here; every checksum is asked, or the caller vouches for the bytes
// (packs, by SHA-256). Bytes that no reader uses, such as the meta block, are guarded by nobody.
// LevelDB is compiled without exceptions: when memory runs out inside it, the std::bad_alloc passes
// through and what it held there is lost.
#ifndef SINTER_CACHE_STORE_TABLE_H_
#define SINTER_CACHE_STORE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/ports.h"
#include "src/base/shared_bytes.h"

namespace sinter {

// The user key of a record: "k/" or "p/", then the 32 raw bytes of the SHA-256 of its canonical
// key.
std::string TableUserKey(RecordKind kind, const Digest& digest);

// A table of one record, as the local store keeps it. Its key in the file is an internal key of
// LevelDB (the user key, then 8 bytes: sequence << 8 | type), ordered as LevelDB orders them, so
// that a plain leveldb::DB can adopt the files. Equal records make equal files. `write` takes the
// file's bytes in order, in few pieces; the first status of it that is not OK ends the writing and
// is returned. Throws std::bad_alloc, as all that follows does.
using TableSink = std::function<absl::Status(absl::string_view piece)>;
absl::Status WriteTable(absl::string_view user_key, absl::string_view value,
                        const TableSink& write);
constexpr uint64_t kMostTableOverhead = 1024;  // of such a file, beside its value

struct TableEntry {
  std::string user_key;
  absl::string_view value;  // borrowed from the file
};

// The single entry of such a table, all checksums of what was read asked. DATA_LOSS with the cause
// for damage, and for more entries than one.
absl::StatusOr<TableEntry> ReadTable(absl::string_view file);

// Writes a table of many records, a block each, keys in bytewise order. The bytes are appended to a
// string of the caller's, who may take them away between calls. Not thread-safe.
class TableWriter {
 public:
  explicit TableWriter(std::string* out);  // borrowed
  ~TableWriter();
  TableWriter(const TableWriter&) = delete;
  TableWriter& operator=(const TableWriter&) = delete;

  // Appends the block of this record. Keys ascend, and none comes twice or is empty.
  void Add(absl::string_view key, absl::string_view value);
  // Appends what follows the last block. Once, and nothing is added afterwards.
  void Finish();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// Reads a table that TableWriter wrote. Immutable, thread-safe.
class TableReader {
 public:
  // Reads exactly `bytes` bytes of the table at `offset`, and vouches for them. Thread-safe.
  using Source = std::function<absl::Status(uint64_t offset, char* to, size_t bytes)>;

  // Reads the footer and the index. DATA_LOSS for damage and where `source` says so, UNAVAILABLE
  // for whatever else it says.
  static absl::StatusOr<TableReader> Open(Source source, uint64_t table_bytes);

  // The value under `key`, which keeps what backs it alive. NOT_FOUND; else as Open.
  absl::StatusOr<SharedBytes> Find(absl::string_view key) const;

 private:
  struct Opened;
  std::shared_ptr<const Opened> opened_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_TABLE_H_
