// CacheTools: the operations on a context's cache besides preparing plans: packs, trimming, waiting
// for pending writes. wiring_cache.cc plugs it into the tiers.
#ifndef SINTER_SRC_ENGINE_CACHE_TOOLS_H_
#define SINTER_SRC_ENGINE_CACHE_TOOLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/record.h"
#include "cache/store/local_store.h"
#include "src/base/config.h"
#include "src/base/digest.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/chain/chain.h"

namespace sinter {

// RecordStory: a description of a cached record for people, only from its key.

struct RecordStory {
  std::string what;    // of a plan: the chain; of a kernel: what it computes, and how
  int64_t bucket = 0;  // of a plan of a chain that uses M
  bool uses_m = false;
  std::string
      device;  // of a plan the device model, "h200" or "model 1f2e3d4c"; of a kernel its arch
};

// Empty for bytes that are not a key of this version. Trusts nothing.
RecordStory StoryOfKey(RecordKind kind, absl::string_view key);

// For a sequence of products: its problem line with as many fields as have names: "gated_ffn n=3072
// k=1024 l=1024 act=silu layout=oi dtype=bf16". For any other chain: its ops by kind, and what it
// reads and writes: "9 ops: 2 reduce, 2 broadcast, .. of bf16[M,4096] to bf16[M,4096]".
std::string ChainStory(const Chain& chain);

struct ExportRequest {
  std::string path;
  std::string signing_key;  // PEM file of an Ed25519 private key; "": the pack is not signed
  bool used_only = false;   // only records that this context asked for
  bool dry_run = false;     // reads the key and looks at the path, and writes nothing
  // Whether a record is what its key says (Engine::CheckStored); others are left out.
  RecordFilter wanted;
};

struct PackRecord {
  RecordKind kind = RecordKind::kPlan;
  Digest key;
  uint64_t bytes = 0;
  bool verified = false;
  std::string arch;
  RecordStory story;
};
struct PackDescription {
  std::string path, producer;
  int64_t created_unix_s = 0;
  uint64_t bytes = 0;
  std::vector<std::string> signed_by;  // the trusted keys that signed it, in hex
  std::vector<PackRecord> records;
  uint64_t unsound = 0;  // when every record was read
  std::vector<std::string> findings;
};

// How the local tier keeps its records, in reports and in cache_store.
constexpr char kLocalStoreName[] = "tables";

// One record of the local tier.
struct CacheRecord {
  RecordKind kind = RecordKind::kPlan;
  Digest key;
  uint64_t bytes = 0;
  int64_t last_use_unix_s = 0;
  bool sound = false;  // a lookup of this version would take it; if not, what follows is unset
  bool verified = false;
  int64_t created_unix_s = 0;
  std::string arch, producer;
  RecordStory story;
};

// Thread-safe. Every call blocks for as long as the disk takes. Calls that need the local tier fail
// with PERMISSION_DENIED for a folder that was refused, UNAVAILABLE without a local tier.
class CacheTools {
 public:
  virtual ~CacheTools() = default;
  // Import, Inspect and Describe run `check` on each record. The engine sets it before it calls
  // them.
  virtual void CheckWith(RecordCheck check) = 0;
  // Trim asks it for the kernels that a plan names. As CheckWith.
  virtual void KernelsWith(KernelsOfPlan kernels_of) = 0;
  // For a record that the engine found not to be what its key says: TieredStore::Refuse.
  virtual bool Refuse(RecordKind kind, absl::string_view key, absl::string_view payload) = 0;
  virtual absl::StatusOr<PackReport> Export(const ExportRequest& request) = 0;
  // Packs are opened under the context's rules: with its keys, unsigned ones only if it allows
  // them.
  virtual absl::StatusOr<ImportReport> Import(const std::string& path) = 0;
  virtual absl::StatusOr<PackDescription> Describe(const std::string& path, bool read_all) = 0;
  // Removes the longest unused records. A kernel goes after the plans that name it.
  virtual absl::StatusOr<SweepReport> Trim(uint64_t max_bytes) = 0;
  // Writes to the remote store what it lacks of the local tier's records for which `wanted` is true
  // (as ExportRequest's). FAILED_PRECONDITION without a remote store, or with one that this context
  // only reads; the error of a store that does not answer says how many were written.
  virtual absl::StatusOr<PushReport> Push(const RecordFilter& wanted) = 0;
  virtual absl::StatusOr<KeptReport> Kept() = 0;
  // Has the records of the local tier counted in the background, at most once a minute, for
  // Store::Stats.
  virtual void CountRecords() = 0;
  virtual absl::StatusOr<LocalReport> Inspect() = 0;
  virtual absl::StatusOr<std::vector<CacheRecord>> List() = 0;  // plans before kernels, then by key
  // Removes every record; tombstones stay. FAILED_PRECONDITION for a folder that holds other files.
  virtual absl::StatusOr<ClearReport> Clear(bool dry_run) = 0;
  virtual void Flush() = 0;
};

struct WiredCache {
  std::unique_ptr<Store> store;
  std::shared_ptr<CacheTools> tools;  // valid as long as `store`
};

// The tiers that `config` asks for. `group` names the records that are prefetched together.
// INVALID_ARGUMENT for a local store of another name than "tables" and for a malformed remote
// address; INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED for a key file that cannot be used.
// Anything else that is wrong with a tier is a warning and counted misses.
absl::StatusOr<WiredCache> WireCache(const Config& config, absl::string_view group,
                                     const LogSink& log);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_CACHE_TOOLS_H_
