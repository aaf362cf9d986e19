// From tiers to a pack, and back.
#ifndef SINTER_CACHE_PACK_PACK_EXPORT_H_
#define SINTER_CACHE_PACK_PACK_EXPORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/pack/pack_list.h"
#include "cache/pack/pack_reader.h"
#include "cache/pack/pack_writer.h"
#include "cache/record/record_check.h"
#include "cache/store/record_store.h"

namespace sinter {

// Packs the records of `store` (may be null) and of `packs`, each once: the store's, else the first
// pack's. With `only`, just those; others of the list count as skipped when no tier has them. What
// is quarantined or unsound is left out. RESOURCE_EXHAUSTED when memory runs out, here and below;
// bad_alloc when there is none for the status either.
absl::StatusOr<PackReport> ExportPack(RecordStore* store, const PackList& packs,
                                      const std::vector<PackItem>* only,
                                      const PackWriteOptions& options);

struct ImportReport {
  uint64_t stored = 0;   // now in the store, whoever put them there
  uint64_t refused = 0;  // quarantined there, too large, damaged in the pack, or found wrong
};

// Puts every sound record of `pack` that `check` lets pass into `store`. A verified kernel there is
// never replaced by an unverified one. Fails only for trouble that the next record would meet too.
absl::StatusOr<ImportReport> ImportPack(const PackReader& pack, RecordStore* store,
                                        const RecordCheck& check = nullptr);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_EXPORT_H_
