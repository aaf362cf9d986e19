// Writes records into one pack file in one pass, with one record in memory at a time; and copies
// the records of a pack back into a store.
#ifndef SINTER_CACHE_PACK_PACK_WRITER_H_
#define SINTER_CACHE_PACK_PACK_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/pack/pack_reader.h"
#include "cache/record/envelope.h"
#include "cache/store/files.h"
#include "cache/store/local_store.h"
#include "src/base/digest.h"
#include "src/base/ports.h"
#include "src/base/signing.h"

namespace sinter {

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
  std::function<bool(RecordKind kind, absl::string_view key, absl::string_view payload)> wanted;
};

struct PackReport {
  uint64_t plans = 0, kernels = 0, bytes = 0;
  uint64_t skipped = 0;  // items that were gone, unsound or not wanted when they were to be written
};

// Returns the encoded envelope of one item. NOT_FOUND skips the item, any other error ends the
// writing.
using EnvelopeSource = std::function<absl::StatusOr<std::string>(const PackItem&)>;

// `items` in any order, without duplicates. Every envelope is verified again before it is packed.
// On failure `path` is unchanged and nothing is left beside it. The result is synced; its mode is
// 0644 less the umask. RESOURCE_EXHAUSTED when memory runs out or a limit of the format is
// exceeded.
absl::StatusOr<PackReport> WritePack(const PackWriteOptions& options, std::vector<PackItem> items,
                                     const EnvelopeSource& source);

// Packs the records of `store` (may be null) and of `packs`, each once: the store's version if it
// has one, else the first pack's. With `only`, just those records; those that no tier has count as
// skipped. Quarantined and unsound records are left out. RESOURCE_EXHAUSTED when memory runs out;
// bad_alloc if there is not even enough for that status.
absl::StatusOr<PackReport> ExportPack(LocalStore* store, const PackList& packs,
                                      const std::vector<PackItem>* only,
                                      const PackWriteOptions& options);

struct ImportReport {
  uint64_t stored = 0;   // in the store afterwards, whoever put them there
  uint64_t refused = 0;  // quarantined there, too large, damaged in the pack, or refused by `check`
};

// Puts every sound record of `pack` that passes `check` into `store`. A verified kernel there is
// never replaced by an unverified one. Fails only for trouble that the next record would meet too.
absl::StatusOr<ImportReport> ImportPack(const PackReader& pack, LocalStore* store,
                                        const RecordCheck& check = nullptr);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_WRITER_H_
