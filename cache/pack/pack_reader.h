// PackReader: one pack as a read-only tier. Opened once; afterwards a look-up is a search in the
// manifest and one pread. It takes no lock, writes nothing, never maps the file, and works on any
// file system.
#ifndef SINTER_CACHE_PACK_PACK_READER_H_
#define SINTER_CACHE_PACK_PACK_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/pack/pack_format.h"
#include "cache/record/envelope.h"
#include "cache/store/files.h"
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
  // Reads manifest and signatures only. NOT_FOUND; PERMISSION_DENIED when nobody trusted signed it
  // (or its owner is refused); DATA_LOSS; FAILED_PRECONDITION for another format; UNAVAILABLE.
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
  friend class PackVerifier;
  PackReader() = default;

  const PackEntry* Find(RecordKind kind, const Digest& digest) const;
  Lookup Find(RecordKind kind, absl::string_view key, const Digest& digest) const;
  absl::StatusOr<SharedBytes> ReadBlock(const PackEntry& entry) const;
  absl::StatusOr<SharedBytes> ReadAt(uint64_t offset, uint64_t size) const;
  absl::Status Load(const PackOptions& options);
  absl::Status CheckSignatures(const PackOptions& options, const PackTail& tail);

  std::string path_;
  std::shared_ptr<FileOps> ops_;
  RecordFormat format_;
  Fd fd_;
  uint64_t file_bytes_ = 0;
  PackManifest manifest_;
  std::vector<PublicKey> signers_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_READER_H_
