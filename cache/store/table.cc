#include "cache/store/table.h"

#include <algorithm>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cache/store/crc32c.h"
#include "cache/store/table_blocks.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kFooterSize = kTableFooterBytes;
constexpr uint64_t kInternalTrailerSize = 8;
constexpr uint64_t kSequence = 1;  // every key is written once
constexpr uint64_t kTypeValue = 1;

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("table: ", what));
}

// The block's contents if it lies wholly before the footer and is uncompressed.
absl::StatusOr<absl::string_view> BlockAt(absl::string_view file, const BlockSpan& span,
                                          absl::string_view what) {
  if (!EndsBy(span, file.size() - kFooterSize)) {
    return Bad(absl::StrCat(what, " block passes the end"));
  }
  if (file[span.offset + span.size] != kNoCompression)
    return Bad(absl::StrCat(what, " block type"));
  return file.substr(span.offset, span.size);
}

struct BlockEntry {
  absl::string_view key, value;
};

// The entry of a block of exactly one, behind which stands one restart point at 0.
absl::StatusOr<BlockEntry> OnlyEntry(absl::string_view block, absl::string_view what) {
  EntryLengths lengths;
  if (!TakeLengths(&block, &lengths) || lengths.shared != 0 || lengths.key > block.size() ||
      lengths.value > block.size() - lengths.key) {
    return Bad(absl::StrCat(what, " entry"));
  }
  BlockEntry entry;
  entry.key = block.substr(0, lengths.key);
  entry.value = block.substr(lengths.key, lengths.value);
  ByteReader restarts(block.substr(lengths.key + lengths.value));
  const uint32_t restart = restarts.U32(), count = restarts.U32();
  if (!restarts.AtEnd() || restart != 0 || count != 1) {
    return Bad(absl::StrCat(what, " holds more than one entry"));
  }
  return entry;
}

// LevelDB does not read the meta block of a table without filters, so its checksum goes unasked. It
// is always the same.
absl::Status CheckMetaBlock(absl::string_view file, const BlockSpan& span) {
  SINTER_RETURN_IF_ERROR(BlockAt(file, span, "meta").status());
  const absl::string_view got = file.substr(span.offset, span.size + kBlockTrailerSize);
  return got == kMetaBlock ? absl::OkStatus() : Bad("meta block differs");
}

struct Layout {
  BlockSpan data, index;
  BlockEntry index_entry;
};

// The blocks of a table of one entry: one data block, the meta block, the index block, the footer,
// adjoining and nothing else. No checksum is asked yet.
absl::StatusOr<Layout> ReadLayout(absl::string_view file) {
  if (file.size() < kFooterSize) return Bad(absl::StrCat(file.size(), " bytes"));
  SINTER_ASSIGN_OR_RETURN(const TableFooter footer,
                          ReadFooter(file.substr(file.size() - kFooterSize), file.size()));
  SINTER_RETURN_IF_ERROR(CheckMetaBlock(file, footer.meta));
  Layout layout;
  layout.index = footer.index;
  SINTER_ASSIGN_OR_RETURN(const absl::string_view index, BlockAt(file, footer.index, "index"));
  SINTER_ASSIGN_OR_RETURN(layout.index_entry, OnlyEntry(index, "index"));
  absl::string_view handle = layout.index_entry.value;
  if (!TakeHandle(&handle, &layout.data) || !handle.empty()) return Bad("index handle");
  if (layout.data.offset != 0) return Bad("data block does not start the file");
  SINTER_RETURN_IF_ERROR(BlockAt(file, layout.data, "data").status());
  const BlockSpan& meta = footer.meta;
  if (meta.offset != layout.data.size + kBlockTrailerSize ||
      layout.index.offset != meta.offset + meta.size + kBlockTrailerSize ||
      file.size() != layout.index.offset + layout.index.size + kBlockTrailerSize + kFooterSize) {
    return Bad("blocks do not adjoin");
  }
  return layout;
}

// `span` was found to lie inside `file`.
absl::Status CheckCrc(absl::string_view file, const BlockSpan& span, absl::string_view what) {
  return CheckBlockCrc(file.substr(span.offset, span.size + kBlockTrailerSize), what);
}

absl::StatusOr<TableEntry> ReadChecked(absl::string_view file) {
  SINTER_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(file));
  SINTER_RETURN_IF_ERROR(CheckCrc(file, layout.index, "index"));
  SINTER_RETURN_IF_ERROR(CheckCrc(file, layout.data, "data"));
  SINTER_ASSIGN_OR_RETURN(const BlockEntry found,
                          OnlyEntry(file.substr(layout.data.offset, layout.data.size), "data"));
  if (found.key != layout.index_entry.key) return Bad("index key differs");
  if (found.key.size() < kInternalTrailerSize) return Bad("entry key is too short");
  const absl::string_view trailer = found.key.substr(found.key.size() - kInternalTrailerSize);
  if (ByteReader(trailer).U64() != (kSequence << 8 | kTypeValue)) return Bad("entry key trailer");
  TableEntry entry;
  entry.user_key = found.key.substr(0, found.key.size() - kInternalTrailerSize);
  entry.value = found.value;
  return entry;
}

}  // namespace

std::string TableUserKey(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kind == RecordKind::kKernel ? "k/" : "p/", digest.View());
}

absl::StatusOr<std::string> BuildTable(absl::string_view user_key, absl::string_view value) {
  return BuildTable(user_key, value.size(),
                    [&](std::string* file) { file->append(value.data(), value.size()); });
}

absl::StatusOr<std::string> BuildTable(absl::string_view user_key, uint64_t value_bytes,
                                       const std::function<void(std::string*)>& append) {
  try {
    ByteWriter key;
    key.Raw(user_key);
    key.U64(kSequence << 8 | kTypeValue);
    std::string file, handle;
    file.reserve(value_bytes + 512);
    PutHandle(PutBlock(key.str(), value_bytes, append, &file), &handle);
    const BlockSpan meta{file.size(), kMetaBlock.size() - kBlockTrailerSize};
    file.append(kMetaBlock.data(), kMetaBlock.size());
    PutFooter(meta, PutBlock(key.str(), handle, &file), &file);
    return file;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("table: out of memory");
  }
}

absl::StatusOr<TableEntry> ReadTable(absl::string_view file) {
  try {
    return ReadChecked(file);  // only the texts of refusals allocate
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("table: out of memory");
  }
}

}  // namespace sinter
