// PackReader: one pack as a read-only tier. PackList: the packs of a context in order. A pack is
// opened once; after that a look-up is a search in the manifest and one pread. It takes no lock,
// writes nothing, never maps the file, and works on any file system.
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
  // format; UNAVAILABLE.
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

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_READER_H_
