// Tables as somebody makes them who knows LevelDB's format and computes every checksum right.
#pragma once

#include "src/base/codec.h"
#include "tests/support/common.h"

namespace sinter {
namespace cache_testing {

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string Handle(uint64_t offset, uint64_t bytes) {
  return Varint(offset) + Varint(bytes);
}

// An entry whose lengths say what they like of `body`, its key and value.
inline std::string ForgedEntry(uint64_t shared, uint64_t key, uint64_t value,
                               absl::string_view body) {
  return absl::StrCat(Varint(shared), Varint(key), Varint(value), body);
}
inline std::string Entry(absl::string_view key, absl::string_view value) {
  return ForgedEntry(0, key.size(), value.size(), absl::StrCat(key, value));
}

inline uint32_t MaskedCrc(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// With its trailer.
inline std::string Block(absl::string_view entries, const std::vector<uint32_t>& restarts,
                         char compression = 0) {
  ByteWriter out;
  out.Raw(entries);
  for (const uint32_t at : restarts) out.U32(at);
  out.U32(static_cast<uint32_t>(restarts.size()));
  out.U8(static_cast<uint8_t>(compression));
  out.U32(MaskedCrc(out.str()));
  return out.Take();
}

// An index of these entries, each at a restart point of its own.
inline std::string IndexBlock(const std::vector<std::string>& entries) {
  std::string all;
  std::vector<uint32_t> restarts;
  for (const std::string& entry : entries) {
    restarts.push_back(static_cast<uint32_t>(all.size()));
    all += entry;
  }
  return Block(all, entries.empty() ? std::vector<uint32_t>{0} : restarts);
}

// The bytes after the record blocks: an empty meta block, `index`, the footer.
inline std::string ForgedRest(uint64_t blocks_bytes, const std::string& index) {
  const std::string meta = Block("", {0});
  std::string footer =
      Handle(blocks_bytes, meta.size() - 5) + Handle(blocks_bytes + meta.size(), index.size() - 5);
  footer.resize(40, '\0');
  ByteWriter magic;
  magic.U64(0xdb4775248b80fb57u);
  return absl::StrCat(meta, index, footer, magic.str());
}

// Blocks that adjoin, named by a right index under `keys`.
inline std::string ForgedTable(const std::vector<std::string>& keys,
                               const std::vector<std::string>& blocks) {
  std::string table;
  std::vector<std::string> entries;
  for (size_t i = 0; i < blocks.size(); ++i) {
    entries.push_back(Entry(keys[i], Handle(table.size(), blocks[i].size() - 5)));
    table += blocks[i];
  }
  return table + ForgedRest(table.size(), IndexBlock(entries));
}

struct ForgedBlock {
  const char* name;
  std::string bytes;  // a block of a record, its checksum right
  const char* finding;
};

// Blocks that LevelDB would follow out of their bounds, unpack, or read otherwise than they were
// written; `key` is the key of their record.
inline std::vector<ForgedBlock> ForgedBlocks(const std::string& key) {
  const std::string body = key + "value", one = Entry(key, "value");
  const auto second_at = static_cast<uint32_t>(one.size());
  const std::string two = one + Entry(key + "2", "value");
  return {
      {"key of 4 GiB", Block(ForgedEntry(0, 0xfffffff0u, 0x11, body), {0}), "passes the block"},
      {"value of 4 GiB",
       Block(ForgedEntry(0, key.size(), 0u - uint32_t(key.size()) + 1, body), {0}),
       "passes the block"},
      {"value of 2^40", Block(ForgedEntry(0, key.size(), uint64_t{1} << 40, body), {0}),
       "passes the block"},
      {"snappy", Block(std::string("\xff\xff\xff\xff\x0f", 5), {0}, 1), "a compressed block"},
      {"no such compression", Block(one, {0}, 2), "a compressed block"},
      {"two restarts", Block(two, {0, second_at}), "more than one restart"},
      {"two entries", Block(two, {0}), "more than one entry"},
      {"a shared prefix", Block(one + ForgedEntry(key.size(), 1, 5, "2value"), {0, second_at}),
       "restart"},
      {"shared with nothing", Block(ForgedEntry(1, key.size(), 5, body), {0}), "shares a prefix"},
      {"a restart past the end", Block(one, {0xfffffff0u}), "a restart point"},
      {"no entry", Block("", {0}), "fewer entries"},
      {"an entry cut", Block("\xff\xff", {0}), "ends early"},
  };
}

}  // namespace cache_testing
}  // namespace sinter
