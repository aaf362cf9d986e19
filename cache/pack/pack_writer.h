// PackWriter: records into one pack file, in one pass, a record in memory at a time.
#ifndef SINTER_CACHE_PACK_PACK_WRITER_H_
#define SINTER_CACHE_PACK_PACK_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/store/files.h"
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
  std::string producer;                // said in the manifest
  const SigningKey* signer = nullptr;  // null: unsigned; borrowed for the call
  std::shared_ptr<FileOps> ops;        // null: the real system calls
  // Whether a sound record is to be packed; null: every one.
  std::function<bool(RecordKind kind, absl::string_view key, absl::string_view payload)> wanted;
};

struct PackReport {
  uint64_t plans = 0, kernels = 0, bytes = 0;
  uint64_t skipped = 0;  // items that were gone, unsound or not wanted when it was their turn
};

// The encoded envelope of one item; NOT_FOUND skips it, any other error ends the writing.
using EnvelopeSource = std::function<absl::StatusOr<std::string>(const PackItem&)>;

// `items` in any order, without duplicates. Every envelope is verified again before it is packed.
// On failure `path` is as it was and nothing is left beside it. The result is synced, mode 0644
// less the umask. RESOURCE_EXHAUSTED when memory runs out or a limit of the format is passed.
absl::StatusOr<PackReport> WritePack(const PackWriteOptions& options, std::vector<PackItem> items,
                                     const EnvelopeSource& source);

}  // namespace sinter

#endif  // SINTER_CACHE_PACK_PACK_WRITER_H_
