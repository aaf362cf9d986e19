// The bytes of a pack: one file of many records, sealed, signed, never changed.
//
//   table       a LevelDB table: user key "k/" or "p/" + digest, value = envelope, one block each
//   manifest    what every byte of the table must be
//   signatures  0 to 16 times: 32 bytes public key, 64 bytes Ed25519 of SignedMessage(manifest)
//   tail        64 bytes: u64 sizes of the three parts, SHA-256 of the manifest, magic
//
// Invariants of a manifest: entries strictly ascend by table key; blocks adjoin from byte 0 in that
// order; what follows the last block (LevelDB's meta block, index and footer) has its own hash. So
// the manifest covers every byte of the table, the tail's hash every byte of the manifest, and the
// three sizes add up to the file's. Sizes are bytes, integers little-endian.
#ifndef SINTER_CACHE_PACK_PACK_FORMAT_H_
#define SINTER_CACHE_PACK_PACK_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/ports.h"
#include "src/base/signing.h"

namespace sinter {

constexpr uint32_t kPackVersion = 1;
constexpr uint64_t kPackTailBytes = 64;
constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxPackSignatures = 16;
constexpr uint64_t kPackSignatureBytes = kPublicKeyBytes + kSignatureBytes;

struct PackEntry {
  RecordKind kind = RecordKind::kPlan;
  bool verified = false;  // a kernel that was checked on a device
  Digest digest;          // of the record's key
  uint64_t offset = 0;    // of its block; not stored: blocks adjoin
  uint64_t bytes = 0;     // of its block, trailer included
  Digest block;           // SHA-256 of the block
  std::string arch;       // "" for plans
};

struct PackManifest {
  int64_t created_unix_s = 0;  // time of the newest record: equal records make an equal pack
  std::string producer;
  uint64_t rest_bytes = 0;  // of the table after its last block
  Digest rest;              // SHA-256 of these bytes
  std::vector<PackEntry> entries;
  uint64_t BlockBytes() const;  // where the rest begins
};

// Order of entries: by kind as the table key spells it ("k/" before "p/"), then by digest.
bool PackOrder(const PackEntry& a, const PackEntry& b);

std::string EncodeManifest(const PackManifest& manifest);
// Untrusted bytes. DATA_LOSS naming what is wrong; FAILED_PRECONDITION for another format version.
absl::StatusOr<PackManifest> DecodeManifest(absl::string_view bytes);

struct PackTail {
  uint64_t table_bytes = 0, manifest_bytes = 0, signature_bytes = 0;
  Digest manifest;
};
std::string EncodeTail(const PackTail& tail);
// The tail of a file of `file_bytes` bytes; its three parts then lie inside the file. Errors as
// DecodeManifest.
absl::StatusOr<PackTail> DecodeTail(absl::string_view bytes, uint64_t file_bytes);

// The bytes that a signature signs.
std::string SignedMessage(const Digest& manifest);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_FORMAT_H_
