#include "cache/store/table.h"

#include <leveldb/comparator.h>
#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>
#include <leveldb/table_builder.h>

#include <algorithm>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kFooterSize = kTableFooterBytes;
constexpr uint64_t kBlockTrailerSize = 5;  // compression type, CRC32C
constexpr uint64_t kTableMagic = 0xdb4775248b80fb57u;
constexpr uint64_t kInternalTrailerSize = 8;
constexpr uint64_t kSequence = 1;  // every key is written once
constexpr uint64_t kTypeValue = 1;
constexpr char kNoCompression = 0;

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("table: ", what));
}

leveldb::Slice ToSlice(absl::string_view v) { return leveldb::Slice(v.data(), v.size()); }
absl::string_view ToView(const leveldb::Slice& v) { return absl::string_view(v.data(), v.size()); }

// LevelDB's order of internal keys: user key ascending, then trailer (sequence and type)
// descending. Keys are never shortened, so that index blocks hold whole internal keys too. Keys
// shorter than a trailer come only from damage and compare as bytes.
class InternalKeyOrder : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    if (a.size() < kInternalTrailerSize || b.size() < kInternalTrailerSize) return a.compare(b);
    const leveldb::Slice user_a(a.data(), a.size() - kInternalTrailerSize);
    const leveldb::Slice user_b(b.data(), b.size() - kInternalTrailerSize);
    const int order = user_a.compare(user_b);
    if (order != 0) return order;
    const uint64_t trailer_a = Trailer(a), trailer_b = Trailer(b);
    return trailer_a > trailer_b ? -1 : (trailer_a < trailer_b ? 1 : 0);
  }
  const char* Name() const override { return "leveldb.InternalKeyComparator"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  static uint64_t Trailer(const leveldb::Slice& key) {
    return ByteReader(ToView(key).substr(key.size() - kInternalTrailerSize)).U64();
  }
};

class StringSink : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string bytes;
};

// Serves slices of bytes that outlive it; LevelDB then neither copies nor frees them.
class ViewSource : public leveldb::RandomAccessFile {
 public:
  explicit ViewSource(absl::string_view bytes) : bytes_(bytes) {}
  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result, char*) const override {
    if (offset > bytes_.size()) return leveldb::Status::Corruption("read past the end");
    const absl::string_view part = bytes_.substr(offset, n);
    *result = ToSlice(part);
    return leveldb::Status::OK();
  }

 private:
  absl::string_view bytes_;
};

leveldb::Options TableOptions(const leveldb::Comparator* order) {
  leveldb::Options options;
  options.comparator = order;
  options.compression = leveldb::kNoCompression;
  options.paranoid_checks = true;
  return options;
}

// A varint of at most `max_bytes` bytes in its only shortest form; false at damage.
bool TakeVarint(absl::string_view* in, size_t max_bytes, uint64_t* out) {
  *out = 0;
  for (size_t i = 0; i < max_bytes && !in->empty(); ++i) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *out |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) return i == 0 || byte != 0;
  }
  return false;
}

struct BlockSpan {
  uint64_t offset = 0, size = 0;
};

bool TakeHandle(absl::string_view* in, BlockSpan* out) {
  return TakeVarint(in, 10, &out->offset) && TakeVarint(in, 10, &out->size);
}

// The block's contents if it lies wholly before the footer and is uncompressed.
absl::StatusOr<absl::string_view> BlockAt(absl::string_view file, const BlockSpan& span,
                                          absl::string_view what) {
  const uint64_t end = file.size() - kFooterSize;
  if (span.offset > end || span.size > end - span.offset ||
      kBlockTrailerSize > end - span.offset - span.size) {
    return Bad(absl::StrCat(what, " block passes the end"));
  }
  if (file[span.offset + span.size] != kNoCompression)
    return Bad(absl::StrCat(what, " block type"));
  return file.substr(span.offset, span.size);
}

// The data block that an index block of exactly one entry names. Layout: shared = 0, key size,
// value size, key, value (a handle), then one restart point at 0.
absl::StatusOr<BlockSpan> OnlyHandle(absl::string_view index) {
  uint64_t shared = 0, key_size = 0, value_size = 0;
  if (!TakeVarint(&index, 5, &shared) || !TakeVarint(&index, 5, &key_size) ||
      !TakeVarint(&index, 5, &value_size) || shared != 0 || key_size > index.size()) {
    return Bad("index entry");
  }
  index.remove_prefix(key_size);
  if (value_size > index.size()) return Bad("index entry");
  absl::string_view value = index.substr(0, value_size);
  BlockSpan span;
  if (!TakeHandle(&value, &span) || !value.empty()) return Bad("index handle");
  ByteReader restarts(index.substr(value_size));
  const uint32_t restart = restarts.U32(), count = restarts.U32();
  if (!restarts.AtEnd() || restart != 0 || count != 1)
    return Bad("index holds more than one entry");
  return span;
}

// LevelDB does not read the meta block of a table without filters, so its checksum goes unasked. It
// is always the same.
absl::Status CheckMetaBlock(absl::string_view file, const BlockSpan& span) {
  SINTER_RETURN_IF_ERROR(BlockAt(file, span, "meta").status());
  const absl::string_view got = file.substr(span.offset, span.size + kBlockTrailerSize);
  const absl::string_view want("\0\0\0\0\1\0\0\0\0\xc0\xf2\xa1\xb0", 13);
  return got == want ? absl::OkStatus() : Bad("meta block differs");
}

struct Footer {
  BlockSpan meta, index;
};

// The two blocks that `footer`, exactly one footer, names; they may lie anywhere.
absl::StatusOr<Footer> ParseFooter(absl::string_view footer) {
  if (footer.size() != kFooterSize) return Bad(absl::StrCat(footer.size(), " bytes"));
  if (ByteReader(footer.substr(kFooterSize - 8)).U64() != kTableMagic) return Bad("magic differs");
  Footer parsed;
  if (!TakeHandle(&footer, &parsed.meta) || !TakeHandle(&footer, &parsed.index)) {
    return Bad("footer handles");
  }
  while (footer.size() > 8) {
    if (footer.front() != '\0') return Bad("footer padding");
    footer.remove_prefix(1);
  }
  return parsed;
}

// Everything that LevelDB would allocate or follow lies inside the file. Checksums are LevelDB's
// part.
absl::Status CheckLayout(absl::string_view file) {
  if (file.size() < kFooterSize) return Bad(absl::StrCat(file.size(), " bytes"));
  SINTER_ASSIGN_OR_RETURN(const Footer footer, ParseFooter(file.substr(file.size() - kFooterSize)));
  const BlockSpan& meta = footer.meta;
  const BlockSpan& index = footer.index;
  absl::string_view index_block;
  SINTER_RETURN_IF_ERROR(CheckMetaBlock(file, meta));
  SINTER_ASSIGN_OR_RETURN(index_block, BlockAt(file, index, "index"));
  SINTER_ASSIGN_OR_RETURN(const BlockSpan data, OnlyHandle(index_block));
  if (data.offset != 0) return Bad("data block does not start the file");
  SINTER_RETURN_IF_ERROR(BlockAt(file, data, "data").status());
  if (meta.offset != data.size + kBlockTrailerSize ||
      index.offset != meta.offset + meta.size + kBlockTrailerSize ||
      file.size() != index.offset + index.size + kBlockTrailerSize + kFooterSize) {
    return Bad("blocks do not adjoin");
  }
  return absl::OkStatus();
}

absl::StatusOr<TableEntry> OnlyEntry(leveldb::Iterator* it) {
  it->SeekToFirst();
  // A block that cannot be read leaves the iterator on the next one: status first, or damage looks
  // like absence.
  if (!it->status().ok()) return Bad(it->status().ToString());
  if (!it->Valid()) return Bad("no entry");
  const absl::string_view key = ToView(it->key());
  if (key.size() < kInternalTrailerSize) return Bad("entry key is too short");
  const absl::string_view trailer = key.substr(key.size() - kInternalTrailerSize);
  if (ByteReader(trailer).U64() != (kSequence << 8 | kTypeValue)) return Bad("entry key trailer");
  TableEntry entry;
  entry.user_key = std::string(key.substr(0, key.size() - kInternalTrailerSize));
  entry.value = std::string(ToView(it->value()));
  it->Next();
  if (!it->status().ok()) return Bad(it->status().ToString());
  if (it->Valid()) return Bad("more than one entry");
  return entry;
}

absl::StatusOr<TableEntry> ReadChecked(absl::string_view file) {
  const InternalKeyOrder order;
  const ViewSource source(file);
  leveldb::Table* raw = nullptr;
  const leveldb::Status opened = leveldb::Table::Open(
      TableOptions(&order), const_cast<ViewSource*>(&source), file.size(), &raw);
  const std::unique_ptr<leveldb::Table> table(raw);
  if (!opened.ok()) return Bad(opened.ToString());
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> it(table->NewIterator(options));
  return OnlyEntry(it.get());
}

absl::Status FillTable(leveldb::TableBuilder* builder, absl::string_view key,
                       absl::string_view value) {
  try {
    builder->Add(ToSlice(key), ToSlice(value));
    builder->Flush();  // so that Finish cannot fail before it has marked the builder closed
  } catch (const std::bad_alloc&) {
    builder->Abandon();  // a builder destroyed open aborts the process
    return absl::ResourceExhaustedError("table: out of memory");
  }
  const leveldb::Status finished = builder->Finish();
  return finished.ok() ? absl::OkStatus() : Bad(finished.ToString());
}

}  // namespace

std::string TableUserKey(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k/" : "p/", digest.View());
}

absl::Status CheckTableFooter(absl::string_view footer, uint64_t file_bytes) {
  SINTER_ASSIGN_OR_RETURN(const Footer parsed, ParseFooter(footer));
  for (const BlockSpan& span : {parsed.meta, parsed.index}) {
    const uint64_t end = file_bytes - kFooterSize;
    if (span.offset > end || span.size > end - span.offset ||
        kBlockTrailerSize > end - span.offset - span.size) {
      return Bad("a block of the footer passes the end");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BuildTable(absl::string_view user_key, absl::string_view value) {
  try {
    const InternalKeyOrder order;
    ByteWriter internal_key;
    internal_key.Raw(user_key);
    internal_key.U64(kSequence << 8 | kTypeValue);
    StringSink sink;
    sink.bytes.reserve(value.size() + 512);
    leveldb::TableBuilder builder(TableOptions(&order), &sink);
    SINTER_RETURN_IF_ERROR(FillTable(&builder, internal_key.str(), value));
    return std::move(sink.bytes);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("table: out of memory");
  }
}

absl::StatusOr<TableEntry> ReadTable(absl::string_view file) {
  try {
    SINTER_RETURN_IF_ERROR(CheckLayout(file));
    return ReadChecked(file);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("table: out of memory");
  }
}

}  // namespace sinter
