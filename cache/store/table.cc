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

struct BlockEntry {
  absl::string_view key, value;
};

// The entry of a block of exactly one. Layout: shared = 0, key size, value size, key, value, then
// one restart point at 0.
absl::StatusOr<BlockEntry> OnlyEntry(absl::string_view block, absl::string_view what) {
  uint64_t shared = 0, key_size = 0, value_size = 0;
  if (!TakeVarint(&block, 5, &shared) || !TakeVarint(&block, 5, &key_size) ||
      !TakeVarint(&block, 5, &value_size) || shared != 0 || key_size > block.size() ||
      value_size > block.size() - key_size) {
    return Bad(absl::StrCat(what, " entry"));
  }
  BlockEntry entry;
  entry.key = block.substr(0, key_size);
  entry.value = block.substr(key_size, value_size);
  ByteReader restarts(block.substr(key_size + value_size));
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

struct Layout {
  BlockSpan data, index;
  BlockEntry index_entry;
};

// The blocks of a table of one entry: one data block, the meta block, the index block, the footer,
// adjoining and nothing else. No checksum is asked yet.
absl::StatusOr<Layout> ReadLayout(absl::string_view file) {
  if (file.size() < kFooterSize) return Bad(absl::StrCat(file.size(), " bytes"));
  SINTER_ASSIGN_OR_RETURN(const Footer footer, ParseFooter(file.substr(file.size() - kFooterSize)));
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

// `span` was found to lie inside `file`. The checksum covers the contents and the type byte.
absl::Status CheckCrc(absl::string_view file, const BlockSpan& span, absl::string_view what) {
  const uint32_t want = ByteReader(file.substr(span.offset + span.size + 1, 4)).U32();
  const uint32_t got = MaskCrc(Crc32c(file.substr(span.offset, span.size + 1)));
  return got == want ? absl::OkStatus() : Bad(absl::StrCat(what, " block: crc differs"));
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
