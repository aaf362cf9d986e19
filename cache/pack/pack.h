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
#ifndef SINTER_CACHE_PACK_PACK_H_
#define SINTER_CACHE_PACK_PACK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "cache/record/record.h"
#include "cache/store/files.h"
#include "cache/store/local_store.h"
#include "cache/store/table.h"
#include "src/base/digest.h"
#include "src/base/log.h"
#include "src/base/ports.h"

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
// Untrusted bytes. DATA_LOSS naming the fault; FAILED_PRECONDITION for another format version.
absl::StatusOr<PackManifest> DecodeManifest(absl::string_view bytes);

struct PackTail {
  uint64_t table_bytes = 0, manifest_bytes = 0, signature_bytes = 0;
  Digest manifest;
  SINTER_FIELDS(PackTail, table_bytes, manifest_bytes, signature_bytes, manifest);
};
std::string EncodeTail(const PackTail& tail);
// The tail of a file of `file_bytes` bytes; its three parts then lie inside the file. Errors as
// DecodeManifest.
absl::StatusOr<PackTail> DecodeTail(absl::string_view bytes, uint64_t file_bytes);

// The bytes that a signature signs.
std::string SignedMessage(const Digest& manifest);

// PackReader: one pack as a read-only tier. PackList: the packs of a context in order. A pack is
// opened once; after that a look-up is a search in the manifest and one pread. It takes no lock,
// writes nothing, never maps the file, and works on any file system.

struct PackOptions {
  std::string path;
  std::vector<PublicKey> keys;  // whose signatures are trusted
  // Accepts a pack that none of `keys` signed, if it is owned by us or root and nobody else may
  // write it. Signatures that it has must still be valid.
  bool allow_unsigned = false;
  std::shared_ptr<FileOps> ops;  // null: the real system calls
  RecordFormat format;
};

// Immutable, thread-safe; usable in a child after fork(). It keeps the file open, so replacing or
// removing the file changes nothing here.
class PackReader {
 public:
  // Reads the manifest, the signatures and the table's index. NOT_FOUND; PERMISSION_DENIED when no
  // trusted key signed it (or its owner is refused); DATA_LOSS; FAILED_PRECONDITION for another
  // format and for a pack without records; UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<const PackReader>> Open(const PackOptions& options);

  // A hit's bytes match the manifest and passed the envelope's verifier. A damaged record is a
  // miss; the other records are still served.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest) const;

  bool Has(RecordKind kind, const Digest& digest) const { return Find(kind, digest) != nullptr; }
  // The encoded envelope; NOT_FOUND, DATA_LOSS, UNAVAILABLE.
  absl::StatusOr<SharedBytes> ReadEnvelopeBytes(RecordKind kind, const Digest& digest) const;
  // The key in a record, read from the first bytes of its block without any check: for explanations
  // only.
  std::string PeekKey(const PackEntry& entry) const;

  const PackManifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // The trusted keys that signed it; empty for a pack that was accepted unsigned.
  const std::vector<PublicKey>& signers() const { return signers_; }

 private:
  PackReader() = default;

  const PackEntry* Find(RecordKind kind, const Digest& digest) const;
  Lookup Find(RecordKind kind, absl::string_view key, const Digest& digest) const;
  absl::StatusOr<SharedBytes> ReadAt(uint64_t offset, uint64_t size) const;
  absl::Status Load(const PackOptions& options);
  absl::Status CheckSignatures(const PackOptions& options, const PackTail& tail);
  absl::Status OpenTable();
  // Reads the block at `offset` if it has `bytes` bytes and the SHA-256 in the manifest; DATA_LOSS
  // otherwise.
  absl::Status ReadBlock(uint64_t offset, char* to, size_t bytes) const;

  std::string path_;
  std::shared_ptr<FileOps> ops_;
  RecordFormat format_;
  Fd fd_;
  uint64_t file_bytes_ = 0;
  PackManifest manifest_;
  std::vector<PublicKey> signers_;
  absl::optional<TableReader> table_;  // set once the pack is open
};

struct PackFindings {
  uint64_t plans = 0, kernels = 0, verified_kernels = 0;  // sound records
  uint64_t unsound = 0;
  std::vector<std::string> findings;  // one for each damaged record or part, at most 100
  bool ok() const { return unsound == 0; }
};

// Reads the whole pack. Together with Open it checks every byte of the file: what Open did not
// refuse is a finding here. A record that `check` refuses is unsound too.
PackFindings VerifyPack(const PackReader& pack, const RecordCheck& check = nullptr);

// The packs of a context, in the order of look-up.
using PackList = std::vector<std::shared_ptr<const PackReader>>;

struct OpenedPacks {
  PackList packs;
  uint64_t refused = 0;
};

// Never fails: a pack that cannot be opened is left out with one warning that says why.
OpenedPacks OpenPacks(const std::vector<std::string>& paths, const std::vector<PublicKey>& keys,
                      bool allow_unsigned, const LogSink& log);

// The public keys of a PEM file; none for "". Errors as ReadKeyFile and PublicKeysFromPem.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path);
absl::StatusOr<SigningKey> ReadSigningKey(const std::string& path);

// Writes records into one pack file in one pass, with one record in memory at a time; and copies
// the records of a pack back into a store.

struct PackItem {
  RecordKind kind = RecordKind::kPlan;
  Digest digest;
};

struct PackWriteOptions {
  std::string path;                    // replaced atomically; its folder must be there
  std::string producer;                // named in the manifest
  const SigningKey* signer = nullptr;  // null: unsigned; borrowed for the call
  std::shared_ptr<FileOps> ops;        // null: the real system calls
  // Whether a sound record is to be packed; null: all are.
  RecordFilter wanted;
};

// Returns the encoded envelope of one item. NOT_FOUND skips the item, any other error ends the
// writing.
using EnvelopeSource = std::function<absl::StatusOr<std::string>(const PackItem&)>;

// `items` in any order, without duplicates. Every envelope is verified again before it is packed.
// On failure `path` is unchanged and no other file is left. The result is synced; its mode is
// 0644 less the umask. RESOURCE_EXHAUSTED when memory runs out or a limit of the format is
// exceeded; FAILED_PRECONDITION when no record is left to write.
absl::StatusOr<PackReport> WritePack(const PackWriteOptions& options, std::vector<PackItem> items,
                                     const EnvelopeSource& source);

// Packs the records of `store` (may be null) and of `packs`, each once: the store's version if it
// has one, else the first pack's. With `only`, just those records; those that no tier has count as
// skipped. Quarantined and unsound records are left out. RESOURCE_EXHAUSTED when memory runs out;
// bad_alloc if there is not even enough for that status.
absl::StatusOr<PackReport> ExportPack(LocalStore* store, const PackList& packs,
                                      const std::vector<PackItem>* only,
                                      const PackWriteOptions& options);

// Puts every sound record of `pack` that passes `check` into `store`. A verified kernel there is
// never replaced by an unverified one. Fails only for trouble that the next record would meet too.
absl::StatusOr<ImportReport> ImportPack(const PackReader& pack, LocalStore* store,
                                        const RecordCheck& check = nullptr);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_H_
