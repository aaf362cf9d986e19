#include "cache/store/table_blocks.h"

#include "cache/store/crc32c.h"
#include "src/base/codec.h"

namespace sinter {
namespace {

constexpr absl::string_view kOneRestart("\0\0\0\0\1\0\0\0", 8);  // at 0; one of them

// An entry but for its value. Layout: bytes shared with the key before, bytes of its own, bytes of
// the value, key, value.
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

}  // namespace sinter
