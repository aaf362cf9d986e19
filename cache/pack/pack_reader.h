// PackReader: one pack as a read-only tier, and the packs of a context in order. A pack is opened
// once; afterwards a look-up is a search in the manifest and one pread. It takes no lock, writes
// nothing, never maps the file, and works on any file system.
#ifndef SINTER_CACHE_PACK_PACK_READER_H_
#define SINTER_CACHE_PACK_PACK_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "cache/pack/pack_format.h"
#include "cache/record/envelope.h"
#include "cache/store/files.h"
#include "cache/store/table.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/base/signing.h"

namespace sinter {

struct PackOptions {
  std::string path;
  std::vector<PublicKey> keys;  // who may sign
  // Takes a pack that none of `keys` signed, if its owner is we or root and nobody else may write
  // it. A signature that is there must hold all the same.
  bool allow_unsigned = false;
  std::shared_ptr<FileOps> ops;  // null: the real system calls
  RecordFormat format;
};

// Immutable, thread-safe; usable in a child after fork(). Keeps the file open: replacing or
// removing it changes nothing here.
class PackReader {
 public:
  // Reads the manifest, the signatures and the table's index. NOT_FOUND; PERMISSION_DENIED when
  // nobody trusted signed it (or its owner is refused); DATA_LOSS; FAILED_PRECONDITION for another
  // format; UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<const PackReader>> Open(const PackOptions& options);

  // A hit's bytes are what the manifest says, and passed the one verifier. A damaged record is a
  // miss of its own; the others are served.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest) const;

  bool Has(RecordKind kind, const Digest& digest) const { return Find(kind, digest) != nullptr; }
  // The encoded envelope; NOT_FOUND, DATA_LOSS, UNAVAILABLE.
  absl::StatusOr<SharedBytes> ReadEnvelopeBytes(RecordKind kind, const Digest& digest) const;
  // The key that a record echoes, from the first bytes of its block, unproved: for explanations.
  std::string PeekKey(const PackEntry& entry) const;

  const PackManifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  // Who signed, of those who may; empty for a pack taken unsigned.
  const std::vector<PublicKey>& signers() const { return signers_; }

 private:
  PackReader() = default;

  const PackEntry* Find(RecordKind kind, const Digest& digest) const;
  Lookup Find(RecordKind kind, absl::string_view key, const Digest& digest) const;
  absl::StatusOr<SharedBytes> ReadAt(uint64_t offset, uint64_t size) const;
  absl::Status Load(const PackOptions& options);
  absl::Status CheckSignatures(const PackOptions& options, const PackTail& tail);
  absl::Status OpenTable();
  // The block that begins at `offset`, if it has `bytes` bytes and the SHA-256 that the manifest
  // says; DATA_LOSS otherwise.
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
  std::vector<std::string> findings;  // one a damaged record or part, at most 100
  bool ok() const { return unsound == 0; }
};

// Reads all of a pack. Every byte of the file is covered: each damaged one is a finding here, if
// Open did not refuse it. What `check` finds wrong is unsound too.
PackFindings VerifyPack(const PackReader& pack, const RecordCheck& check = nullptr);

// The packs of a context, in the order in which they are asked.
using PackList = std::vector<std::shared_ptr<const PackReader>>;

struct OpenedPacks {
  PackList packs;
  uint64_t refused = 0;
};

// Never fails: a pack that cannot be opened is refused with one warning that says why, and the rest
// serve.
OpenedPacks OpenPacks(const std::vector<std::string>& paths, const std::vector<PublicKey>& keys,
                      bool allow_unsigned, const LogSink& log);

// The public keys of a PEM file; none for "". Errors as ReadKeyFile and PublicKeysFromPem.
absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path);
absl::StatusOr<SigningKey> ReadSigningKey(const std::string& path);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_READER_H_
