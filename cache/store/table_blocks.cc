#include "cache/store/table_blocks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cache/store/crc32c.h"
#include "src/base/codec.h"

namespace sinter {
namespace {

constexpr absl::string_view kOneRestart("\0\0\0\0\1\0\0\0", 8);  // at 0; one of them

// An entry but for its value: EntryLengths, key, value.
void PutKey(absl::string_view key, uint64_t value_bytes, std::string* out) {
  PutVarint(0, out);
  PutVarint(key.size(), out);
  PutVarint(value_bytes, out);
  out->append(key.data(), key.size());
}

}  // namespace

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

void PutHandle(const BlockSpan& span, std::string* out) {
  PutVarint(span.offset, out);
  PutVarint(span.size, out);
}

void PutEntry(absl::string_view key, absl::string_view value, std::string* out) {
  PutKey(key, value.size(), out);
  out->append(value.data(), value.size());
}

BlockSpan SealBlock(uint64_t offset, std::string* out) {
  const BlockSpan span{offset, out->size() - offset};
  out->push_back(kNoCompression);
  ByteWriter crc;
  crc.U32(MaskCrc(Crc32c(absl::string_view(*out).substr(span.offset))));
  out->append(crc.str());
  return span;
}

BlockSpan PutBlock(absl::string_view key, absl::string_view value, std::string* out) {
  return PutBlock(
      key, value.size(), [&](std::string* to) { to->append(value.data(), value.size()); }, out);
}

BlockSpan PutBlock(absl::string_view key, uint64_t value_bytes,
                   const std::function<void(std::string*)>& append, std::string* out) {
  const uint64_t offset = out->size();
  PutKey(key, value_bytes, out);
  append(out);
  out->append(kOneRestart.data(), kOneRestart.size());
  return SealBlock(offset, out);
}

void PutFooter(const BlockSpan& meta, const BlockSpan& index, std::string* out) {
  const size_t at = out->size();
  PutHandle(meta, out);
  PutHandle(index, out);
  out->resize(at + kTableFooterBytes - 8);
  ByteWriter magic;
  magic.U64(kTableMagic);
  out->append(magic.str());
}

bool TakeVarint(absl::string_view* in, size_t max_bytes, uint64_t* out) {
  *out = 0;
  for (size_t i = 0; i < max_bytes && !in->empty(); ++i) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    if (i == 9 && byte > 1) return false;  // a 65th bit
    *out |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) return i == 0 || byte != 0;
  }
  return false;
}

bool TakeHandle(absl::string_view* in, BlockSpan* out) {
  return TakeVarint(in, 10, &out->offset) && TakeVarint(in, 10, &out->size);
}

bool TakeLengths(absl::string_view* in, EntryLengths* out) {
  return TakeVarint(in, 5, &out->shared) && TakeVarint(in, 5, &out->key) &&
         TakeVarint(in, 5, &out->value);
}

bool EndsBy(const BlockSpan& span, uint64_t end) {
  return span.offset <= end && span.size <= end - span.offset &&
         kBlockTrailerSize <= end - span.offset - span.size;
}

absl::StatusOr<TableFooter> ReadFooter(absl::string_view footer, uint64_t file_bytes) {
  const auto bad = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("table: ", what));
  };
  if (footer.size() != kTableFooterBytes || file_bytes < kTableFooterBytes) {
    return bad(absl::StrCat(std::min<uint64_t>(footer.size(), file_bytes), " bytes"));
  }
  if (ByteReader(footer.substr(kTableFooterBytes - 8)).U64() != kTableMagic) {
    return bad("magic differs");
  }
  TableFooter parsed;
  if (!TakeHandle(&footer, &parsed.meta) || !TakeHandle(&footer, &parsed.index)) {
    return bad("footer handles");
  }
  while (footer.size() > 8) {
    if (footer.front() != '\0') return bad("footer padding");
    footer.remove_prefix(1);
  }
  const uint64_t end = file_bytes - kTableFooterBytes;
  if (!EndsBy(parsed.meta, end) || !EndsBy(parsed.index, end)) {
    return bad("a block of the footer passes the end");
  }
  return parsed;
}

absl::Status CheckBlockCrc(absl::string_view block, absl::string_view what) {
  if (block.size() < kBlockTrailerSize) {
    return absl::DataLossError(absl::StrCat("table: ", what, " block ends early"));
  }
  const size_t covered = block.size() - 4;  // the contents and the type byte
  if (block[covered - 1] != kNoCompression) {
    return absl::DataLossError(absl::StrCat("table: ", what, " block type"));
  }
  const uint32_t want = ByteReader(block.substr(covered)).U32();
  if (MaskCrc(Crc32c(block.substr(0, covered))) == want) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("table: ", what, " block: crc differs"));
}

}  // namespace sinter
