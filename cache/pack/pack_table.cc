#include "cache/pack/pack_table.h"

#include <algorithm>

#include "src/base/codec.h"

namespace sinter {
namespace {

uint8_t ByteAt(absl::string_view s, size_t i) { return static_cast<uint8_t>(s[i]); }

// LevelDB's bytewise order shortens the keys of an index: the shortest key that is not below `key`
// and below `next`, if raising the first byte that differs makes one.
std::string Separator(absl::string_view key, absl::string_view next) {
  const size_t least = std::min(key.size(), next.size());
  size_t i = 0;
  while (i < least && key[i] == next[i]) ++i;
  if (i == least || ByteAt(key, i) == 0xff || ByteAt(key, i) + 1 >= ByteAt(next, i)) {
    return std::string(key);
  }
  std::string shorter(key.substr(0, i + 1));
  ++shorter[i];
  return shorter;
}

// A short key that is not below `key`.
std::string Successor(absl::string_view key) {
  size_t i = 0;
  while (i < key.size() && ByteAt(key, i) == 0xff) ++i;
  if (i == key.size()) return std::string(key);
  std::string shorter(key.substr(0, i + 1));
  ++shorter[i];
  return shorter;
}

}  // namespace

void PackTable::Index(absl::string_view key) {
  std::string handle;
  PutHandle(last_, &handle);
  restarts_.push_back(static_cast<uint32_t>(index_.size()));
  PutEntry(key, handle, &index_);
}

std::string PackTable::Add(absl::string_view key, absl::string_view value) {
  if (bytes_ > 0) Index(Separator(last_key_, key));
  std::string block;
  block.reserve(key.size() + value.size() + 64);
  last_ = PutBlock(key, value, &block);
  last_.offset += bytes_;
  last_key_ = std::string(key);
  bytes_ += block.size();
  return block;
}

std::string PackTable::Finish() {
  if (bytes_ > 0) Index(Successor(last_key_));
  if (restarts_.empty()) restarts_.push_back(0);  // of an index without entries
  ByteWriter tail;
  for (const uint32_t restart : restarts_) tail.U32(restart);
  tail.U32(static_cast<uint32_t>(restarts_.size()));
  std::string rest(kMetaBlock);
  rest.reserve(rest.size() + index_.size() + tail.str().size() + 64);
  const uint64_t at = rest.size();
  rest += index_;
  rest += tail.str();
  BlockSpan index = SealBlock(at, &rest);
  index.offset += bytes_;
  PutFooter({bytes_, kMetaBlock.size() - kBlockTrailerSize}, index, &rest);
  return rest;
}

}  // namespace sinter
