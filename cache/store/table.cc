#include "cache/store/table.h"

#include <leveldb/comparator.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// The end of an internal key: sequence 1 (every key is written once) and the type of a value.
constexpr absl::string_view kInternalTrailer("\1\1\0\0\0\0\0\0", 8);

absl::Status Bad(absl::string_view what) { return DataLoss("table: ", what); }

absl::Status ToStatus(const leveldb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("table: ", status.ToString());
  if (status.IsCorruption()) return DataLoss(text);
  return Unavailable(text);
}

leveldb::Status ToLevelDb(const absl::Status& status) {
  if (status.ok()) return leveldb::Status::OK();
  absl::string_view what = status.message();
  absl::ConsumePrefix(&what, "table: ");  // ToStatus adds it
  const std::string text(what);
  return absl::IsDataLoss(status) ? leveldb::Status::Corruption(text)
                                  : leveldb::Status::IOError(text);
}

leveldb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }
absl::string_view ToView(const leveldb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

// LevelDB's order of internal keys, as far as a table of one entry needs it. Keys are not shortened
// in the index, since a leveldb::DB aborts on a key shorter than its trailer.
class OneKeyOrder : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    return a.compare(b);
  }
  const char* Name() const override { return "leveldb.InternalKeyComparator"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

// Only the writer ends a block; a block's size never does.
leveldb::Options TableOptions(const leveldb::Comparator* order) {
  leveldb::Options options;
  options.comparator = order;
  options.compression = leveldb::kNoCompression;
  options.block_size = size_t{1} << 30;
  options.paranoid_checks = true;  // checks the index's checksum
  return options;
}

class StringFile : public leveldb::WritableFile {
 public:
  explicit StringFile(std::string* out) : out_(out) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    out_->append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

 private:
  std::string* const out_;
};

// Passes on written bytes, with small pieces joined: a table is one large block and five small
// ones.
class SinkFile : public leveldb::WritableFile {
 public:
  explicit SinkFile(const TableSink& write) : write_(write) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    if (data.size() < kSmall) {
      small_.append(data.data(), data.size());
      return leveldb::Status::OK();
    }
    HandOn();
    if (status_.ok()) status_ = write_(ToView(data));
    return ToLevelDb(status_);
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

  absl::Status Finish() {
    HandOn();
    return status_;
  }

 private:
  static constexpr size_t kSmall = 16 << 10;
  void HandOn() {
    if (status_.ok() && !small_.empty()) status_ = write_(small_);
    small_.clear();
  }

  const TableSink& write_;
  std::string small_;
  absl::Status status_;
};

// A builder that may be destroyed at any time; LevelDB's own then aborts the process.
class Builder {
 public:
  Builder(const leveldb::Options& options, leveldb::WritableFile* file) : builder_(options, file) {}
  ~Builder() {
    if (!finishing_) builder_.Abandon();
  }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  void AddBlock(absl::string_view key, absl::string_view value) {
    builder_.Add(ToSlice(key), ToSlice(value));
    builder_.Flush();
  }
  void Finish() {
    finishing_ = true;
    (void)builder_.Finish();  // the file remembers its failure
  }

 private:
  leveldb::TableBuilder builder_;
  bool finishing_ = false;
};

// A table's file as LevelDB reads it: the footer, then blocks, which it gets only after CheckBlock.
class CheckedFile : public leveldb::RandomAccessFile {
 public:
  CheckedFile(uint64_t bytes, uint64_t index_at) : bytes_(bytes), index_at_(index_at) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    if (offset > bytes_ || n > bytes_ - offset) return ToLevelDb(Bad("a block passes the end"));
    const absl::StatusOr<absl::string_view> read = Fetch(offset, n, scratch);
    if (!read.ok()) return ToLevelDb(read.status());
    *result = ToSlice(*read);
    if (offset == bytes_ - kTableFooterBytes) return leveldb::Status::OK();
    const BlockRole role = offset == index_at_ ? BlockRole::kIndex : BlockRole::kRecord;
    return ToLevelDb(CheckBlock(*read, role, index_at_));
  }

 private:
  // The bytes at `offset`, in `scratch` or in memory that lives as long as the file.
  virtual absl::StatusOr<absl::string_view> Fetch(uint64_t offset, size_t n,
                                                  char* scratch) const = 0;

  const uint64_t bytes_, index_at_;
};

// A file in memory. Reads return slices of it, so values are never copied.
class MemoryFile : public CheckedFile {
 public:
  MemoryFile(absl::string_view bytes, uint64_t index_at)
      : CheckedFile(bytes.size(), index_at), bytes_(bytes) {}

 private:
  absl::StatusOr<absl::string_view> Fetch(uint64_t offset, size_t n, char*) const override {
    return bytes_.substr(offset, n);
  }

  const absl::string_view bytes_;
};

class SourceFile : public CheckedFile {
 public:
  SourceFile(TableReader::Source source, uint64_t bytes, uint64_t index_at)
      : CheckedFile(bytes, index_at), source_(std::move(source)) {}

 private:
  absl::StatusOr<absl::string_view> Fetch(uint64_t offset, size_t n, char* scratch) const override {
    SINTER_RETURN_IF_ERROR(source_(offset, scratch, n));
    return absl::string_view(scratch, n);
  }

  const TableReader::Source source_;
};

absl::StatusOr<std::unique_ptr<leveldb::Table>> OpenTable(const leveldb::Options& options,
                                                          leveldb::RandomAccessFile* file,
                                                          uint64_t bytes) {
  leveldb::Table* table = nullptr;
  SINTER_RETURN_IF_ERROR(ToStatus(leveldb::Table::Open(options, file, bytes, &table)));
  return std::unique_ptr<leveldb::Table>(table);
}

leveldb::ReadOptions AskingChecksums() {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  return options;
}

// Writing a table takes three times its value's memory. When the memory free at the end of the heap
// exceeds twice the largest piece that was ever mapped and unmapped, glibc's malloc returns it to
// the kernel, which must clear each page again for the next put. Allocating and freeing an
// untouched piece of four times the value raises that limit, so that malloc keeps what a put takes,
// the value's own memory included.
void HaveMallocKeep(uint64_t value_bytes) {
  constexpr uint64_t kMostValue = uint64_t{1} << 20;  // the host process loses no more
  if (value_bytes <= kMostValue) ::operator delete(::operator new(4 * value_bytes, std::nothrow));
}

}  // namespace

std::string TableUserKey(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k/" : "p/", digest.View());
}

absl::Status WriteTable(absl::string_view user_key, absl::string_view value,
                        const TableSink& write) {
  HaveMallocKeep(value.size());
  const OneKeyOrder order;
  SinkFile file(write);
  Builder builder(TableOptions(&order), &file);
  builder.AddBlock(absl::StrCat(user_key, kInternalTrailer), value);
  builder.Finish();
  return file.Finish();
}

absl::StatusOr<TableEntry> ReadTable(absl::string_view file) {
  if (file.size() < kTableFooterBytes) return Bad(absl::StrCat(file.size(), " bytes"));
  SINTER_ASSIGN_OR_RETURN(const uint64_t index_at,
                          CheckFooter(file.substr(file.size() - kTableFooterBytes), file.size()));
  const OneKeyOrder order;
  MemoryFile memory(file, index_at);
  SINTER_ASSIGN_OR_RETURN(const auto table, OpenTable(TableOptions(&order), &memory, file.size()));
  const std::unique_ptr<leveldb::Iterator> at(table->NewIterator(AskingChecksums()));
  at->SeekToFirst();
  SINTER_RETURN_IF_ERROR(ToStatus(at->status()));
  if (!at->Valid()) return Bad("no entry");
  absl::string_view key = ToView(at->key());
  if (!absl::ConsumeSuffix(&key, kInternalTrailer)) return Bad("entry key trailer");
  const TableEntry entry{std::string(key), ToView(at->value())};
  at->Next();
  SINTER_RETURN_IF_ERROR(ToStatus(at->status()));
  if (at->Valid()) return Bad("more than one entry");
  return entry;
}

struct TableWriter::Parts {
  explicit Parts(std::string* out)
      : file(out), builder(TableOptions(leveldb::BytewiseComparator()), &file) {}
  StringFile file;
  Builder builder;
};

TableWriter::TableWriter(std::string* out) : parts_(std::make_unique<Parts>(out)) {}
TableWriter::~TableWriter() = default;

void TableWriter::Add(absl::string_view key, absl::string_view value) {
  parts_->builder.AddBlock(key, value);
}

void TableWriter::Finish() { parts_->builder.Finish(); }

namespace {

// LevelDB makes statics (its Env, its order of keys, the choice of how to compute checksums) at
// their first use, each behind a lock. If a thread of the parent is there during a fork, the child
// finds the lock held permanently. So a table that nobody reads makes the statics when the library
// is loaded.
[[maybe_unused]] const bool kStaticsAreMade = [] {
  try {
    std::string nobody_reads;
    TableWriter(&nobody_reads).Finish();
    return true;
  } catch (const std::bad_alloc&) {  // a later use makes them
    return false;
  }
}();

}  // namespace

struct TableReader::Opened {
  Opened(Source source, uint64_t bytes, uint64_t index_at)
      : file(std::move(source), bytes, index_at) {}
  SourceFile file;
  std::unique_ptr<leveldb::Table> table;
};

absl::StatusOr<TableReader> TableReader::Open(Source source, uint64_t table_bytes) {
  if (table_bytes < kTableFooterBytes) return Bad(absl::StrCat(table_bytes, " bytes"));
  char footer[kTableFooterBytes];
  SINTER_RETURN_IF_ERROR(source(table_bytes - kTableFooterBytes, footer, sizeof(footer)));
  SINTER_ASSIGN_OR_RETURN(const uint64_t index_at,
                          CheckFooter(absl::string_view(footer, sizeof(footer)), table_bytes));
  const auto opened = std::make_shared<Opened>(std::move(source), table_bytes, index_at);
  SINTER_ASSIGN_OR_RETURN(opened->table, OpenTable(TableOptions(leveldb::BytewiseComparator()),
                                                   &opened->file, table_bytes));
  TableReader reader;
  reader.opened_ = opened;
  return reader;
}

absl::StatusOr<SharedBytes> TableReader::Find(absl::string_view key) const {
  struct Entry {
    std::shared_ptr<const Opened> opened;
    std::unique_ptr<leveldb::Iterator> at;  // owns the block; destroyed first
  };
  const auto entry = std::make_shared<Entry>();
  entry->opened = opened_;
  entry->at.reset(opened_->table->NewIterator(leveldb::ReadOptions()));
  entry->at->Seek(ToSlice(key));
  SINTER_RETURN_IF_ERROR(ToStatus(entry->at->status()));
  if (!entry->at->Valid() || ToView(entry->at->key()) != key) {
    return NotFound("table: no such entry");
  }
  return SharedBytes(entry, ToView(entry->at->value()));
}

namespace {

constexpr uint64_t kWordBytes = 4;  // of a restart point, and of their count

bool TakeVarint(absl::string_view* in, uint64_t* out) {
  *out = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Takes one entry off the front of `in` and returns its value.
absl::StatusOr<absl::string_view> TakeEntry(absl::string_view* in) {
  uint64_t shared = 0, key = 0, value = 0;
  if (!TakeVarint(in, &shared) || !TakeVarint(in, &key) || !TakeVarint(in, &value)) {
    return Bad("an entry ends early");
  }
  if (shared != 0) return Bad("a key that shares a prefix");
  if (key > in->size() || value > in->size() - key) return Bad("an entry passes the block");
  const absl::string_view taken = in->substr(key, value);
  in->remove_prefix(key + value);
  return taken;
}

// The block that an index entry names must begin at `*next`, which is moved past it.
absl::Status CheckHandle(absl::string_view handle, uint64_t index_at, uint64_t* next) {
  uint64_t offset = 0, bytes = 0;
  if (!TakeVarint(&handle, &offset) || !TakeVarint(&handle, &bytes) || !handle.empty()) {
    return Bad("an index entry names no block");
  }
  if (offset != *next) return Bad("the index's blocks do not adjoin");
  if (bytes > kMostBlockBytes || bytes + kBlockTrailerBytes > index_at - offset) {
    return Bad(absl::StrCat("the index names a block of ", bytes, " bytes"));
  }
  *next = offset + bytes + kBlockTrailerBytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> CheckFooter(absl::string_view footer, uint64_t table_bytes) {
  uint64_t meta_at = 0, meta_bytes = 0, index_at = 0, index_bytes = 0;
  if (!TakeVarint(&footer, &meta_at) || !TakeVarint(&footer, &meta_bytes) ||
      !TakeVarint(&footer, &index_at) || !TakeVarint(&footer, &index_bytes)) {
    return Bad("footer");
  }
  const uint64_t end = table_bytes - kTableFooterBytes;
  if (index_at > end || index_bytes > end || index_at + index_bytes + kBlockTrailerBytes != end) {
    return Bad("the index does not end at the footer");
  }
  return index_at;
}

absl::Status CheckBlock(absl::string_view block, BlockRole role, uint64_t index_at) {
  if (block.size() < kWordBytes + kBlockTrailerBytes) return Bad("a block ends early");
  const size_t count_at = block.size() - kBlockTrailerBytes - kWordBytes;
  if (block[count_at + kWordBytes] != 0) return Bad("a compressed block");
  const uint64_t count = ByteReader(block.substr(count_at, kWordBytes)).U32();
  if (count == 0 || count > count_at / kWordBytes) return Bad("a block's restart points");
  if (role == BlockRole::kRecord && count != 1) return Bad("a block of more than one restart");
  const size_t entries_end = count_at - count * kWordBytes;
  ByteReader restarts(block.substr(entries_end, count * kWordBytes));
  absl::string_view left = block.substr(0, entries_end);
  uint64_t entries = 0, next_block = 0;
  for (; !left.empty(); ++entries) {
    if (entries == count) return Bad("more than one entry at a restart point");
    if (restarts.U32() != entries_end - left.size()) return Bad("a restart point between entries");
    SINTER_ASSIGN_OR_RETURN(const absl::string_view value, TakeEntry(&left));
    if (role == BlockRole::kIndex) {
      SINTER_RETURN_IF_ERROR(CheckHandle(value, index_at, &next_block));
    }
  }
  // A block without entries still has one restart point.
  if (entries == 0 && role == BlockRole::kIndex && count == 1 && restarts.U32() == 0) {
    return absl::OkStatus();
  }
  return entries == count ? absl::OkStatus() : Bad("a block of fewer entries than restart points");
}

}  // namespace sinter
