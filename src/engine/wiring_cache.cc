// WireCache: connects the engine to the tiers of the cache.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "cache/pack/pack.h"
#include "cache/remote/redis.h"
#include "cache/tiers/tiers.h"
#include "src/base/digest.h"
#include "src/base/format.h"
#include "src/base/ports.h"
#include "src/base/status.h"
#include "src/base/transfer.h"
#include "src/engine/cache_tools.h"

namespace sinter {
namespace {

// The local tier needs an absolute folder. It refuses a path that cannot be made absolute.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

constexpr size_t kLeastSecretBytes = 16;

std::string Producer() { return absl::StrCat("sinter ", SINTER_ENGINE_VERSION); }

class TierTools : public CacheTools {
 public:
  TierTools(TieredStore* store, std::vector<PublicKey> keys, bool allow_unsigned)
      : store_(store), keys_(std::move(keys)), allow_unsigned_(allow_unsigned) {}

  void CheckWith(RecordCheck check) override { store_->CheckWith(std::move(check)); }
  void KernelsWith(KernelsOfPlan kernels_of) override {
    store_->KernelsWith(std::move(kernels_of));
  }

  bool Refuse(RecordKind kind, absl::string_view key, absl::string_view payload) override {
    return store_->Refuse(kind, key, payload);
  }

  absl::StatusOr<PackReport> Export(const ExportRequest& request) override {
    PackWriteOptions options;
    options.path = request.path;
    options.producer = Producer();
    options.wanted = request.wanted;
    std::optional<SigningKey> key;
    if (!request.signing_key.empty()) {
      SINTER_ASSIGN_OR_RETURN(key, ReadSigningKey(request.signing_key));
      options.signer = &*key;
    }
    if (request.dry_run) {
      SINTER_RETURN_IF_ERROR(ReplaceablePath(request.path).status());
      return PackReport();
    }
    return store_->Export(options, request.used_only);
  }

  absl::StatusOr<ImportReport> Import(const std::string& path) override {
    SINTER_ASSIGN_OR_RETURN(const auto pack, Open(path));
    return store_->Import(*pack);
  }

  absl::StatusOr<PackDescription> Describe(const std::string& path, bool read_all) override {
    SINTER_ASSIGN_OR_RETURN(const auto pack, Open(path));
    PackDescription out;
    out.path = path;
    out.producer = pack->manifest().producer;
    out.created_unix_s = pack->manifest().created_unix_s;
    out.bytes = pack->file_bytes();
    for (const PublicKey& key : pack->signers()) {
      out.signed_by.push_back(absl::BytesToHexString(key.View()));
    }
    for (const PackEntry& entry : pack->manifest().entries) {
      out.records.push_back({entry.kind, entry.digest, entry.bytes, entry.verified, entry.arch,
                             StoryOfKey(entry.kind, pack->PeekKey(entry))});
    }
    if (!read_all) return out;
    PackFindings findings = VerifyPack(*pack, store_->check());
    out.unsound = findings.unsound;
    out.findings = std::move(findings.findings);
    return out;
  }

  absl::StatusOr<SweepReport> Trim(uint64_t max_bytes) override { return store_->Trim(max_bytes); }
  absl::StatusOr<LocalReport> Inspect() override { return store_->Inspect(); }
  absl::StatusOr<ClearReport> Clear(bool dry_run) override { return store_->Clear(dry_run); }
  void Flush() override { store_->Flush(); }
  void CountRecords() override { store_->CountRecords(); }

  absl::StatusOr<PushReport> Push(const RecordFilter& wanted) override {
    return store_->Push(wanted);
  }
  absl::StatusOr<KeptReport> Kept() override { return store_->Kept(); }

  absl::StatusOr<std::vector<CacheRecord>> List() override {
    std::vector<CacheRecord> records;
    SINTER_RETURN_IF_ERROR(
        store_->ListLocal([&](const StoredEntry& entry, const Envelope* envelope) {
          records.push_back(ToRecord(entry, envelope));
        }));
    std::sort(records.begin(), records.end(), [](const CacheRecord& a, const CacheRecord& b) {
      return a.kind != b.kind ? a.kind == RecordKind::kPlan : a.key < b.key;
    });
    return records;
  }

 private:
  static CacheRecord ToRecord(const StoredEntry& entry, const Envelope* envelope) {
    CacheRecord record;
    record.kind = entry.kind;
    record.key = entry.digest;
    record.bytes = entry.bytes;
    record.last_use_unix_s = entry.last_use_unix_s;
    if (envelope == nullptr) return record;
    record.sound = true;
    record.verified = envelope->verified;
    record.created_unix_s = envelope->created_unix_s;
    record.arch = envelope->arch;
    record.producer = envelope->producer;
    record.story = StoryOfKey(entry.kind, envelope->key);
    return record;
  }

  absl::StatusOr<std::unique_ptr<const PackReader>> Open(const std::string& path) const {
    PackOptions options;
    options.path = path;
    options.keys = keys_;
    options.allow_unsigned = allow_unsigned_;
    return PackReader::Open(options);
  }

  TieredStore* const store_;
  const std::vector<PublicKey> keys_;
  const bool allow_unsigned_;
};

// Reads a secret from its file, else takes the environment's value.
absl::StatusOr<std::string> Secret(const std::string& path, const std::string& value) {
  if (path.empty()) return value;
  SINTER_ASSIGN_OR_RETURN(std::string secret, ReadKeyFile(path, KeyFileKind::kSecret));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  return secret;
}

// "leveldb-db" is no longer a choice: an error says what became of that store.
absl::Status CheckStoreName(const std::string& name) {
  if (name.empty() || name == kLocalStoreName) return absl::OkStatus();
  if (name != "leveldb-db") {
    return Invalid("cache_store (SINTER_CACHE_STORE) is \"", name.substr(0, 64),
                   "\", must be tables");
  }
  return Invalid(
      "cache_store (SINTER_CACHE_STORE) is \"leveldb-db\", a store that this version does not "
      "have; "
      "unset it, or say tables, which any number of processes share: what the database held is "
      "made again, and v1/db in the cache folder may be removed");
}

absl::Status CheckNameSpace(const std::string& name) {
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') {
      continue;
    }
    return Invalid(
        "remote: the name space has a character that is not a letter, a digit, '-', '_' or '.'");
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteOptions> MakeRemoteOptions(const Config& config, absl::string_view group,
                                                const LogSink& log) {
  RemoteOptions options;
  SINTER_ASSIGN_OR_RETURN(options.secret, Secret(config.remote_key_file, config.remote_key));
  if (options.secret.size() < kLeastSecretBytes) {
    return Invalid("remote: the fleet's key (SINTER_REMOTE_KEY_FILE) has ",
                   Counted(options.secret.size(), "byte"), ", needs ", kLeastSecretBytes,
                   " or more");
  }
  SINTER_RETURN_IF_ERROR(CheckNameSpace(config.remote_name_space));
  if (!config.remote_name_space.empty()) options.name_space = config.remote_name_space;
  options.publish = config.remote_publish;
  options.group = std::string(group);
  options.producer = Producer();
  if (config.remote_ttl_s > 0) options.ttl_s = config.remote_ttl_s;
  options.jitter_seed = static_cast<uint64_t>(getpid());
  options.log = log;
  return options;
}

// One backend for callers' look-ups, one for the background.
absl::StatusOr<std::unique_ptr<RemoteBackend>> MakeBackend(const Config& config) {
  if (config.remote_backend != nullptr) {
    return std::unique_ptr<RemoteBackend>(new SharedBackend(config.remote_backend));
  }
  SINTER_ASSIGN_OR_RETURN(const RemoteAddress address, ParseRemoteAddress(config.remote));
  SINTER_ASSIGN_OR_RETURN(const std::string password,
                          Secret(config.remote_password_file, config.remote_password));
  return std::unique_ptr<RemoteBackend>(new RedisBackend(address, password));
}

absl::StatusOr<std::shared_ptr<RemoteTier>> MakeRemote(const Config& config,
                                                       absl::string_view group,
                                                       const LogSink& log) {
  if (config.remote.empty() && config.remote_backend == nullptr) {
    return std::shared_ptr<RemoteTier>();
  }
  SINTER_ASSIGN_OR_RETURN(RemoteOptions options, MakeRemoteOptions(config, group, log));
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<RemoteBackend> asking, MakeBackend(config));
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<RemoteBackend> background, MakeBackend(config));
  return std::make_shared<RemoteTier>(std::move(options), std::move(asking), std::move(background));
}

}  // namespace

absl::StatusOr<WiredCache> WireCache(const Config& config, absl::string_view group,
                                     const LogSink& log) {
  TierOptions options;
  options.producer = Producer();
  SINTER_ASSIGN_OR_RETURN(std::vector<PublicKey> keys, ReadPublicKeys(config.pack_keys));
  const bool local = config.cache_enabled && !config.cache_dir.empty();
  if (local) {
    SINTER_RETURN_IF_ERROR(CheckStoreName(config.cache_store));
    options.local_root = Absolute(config.cache_dir);
  }
  options.read_only = config.cache_read_only;
  if (config.cache_max_bytes != 0) options.local_bytes = config.cache_max_bytes;
  // A cache that was switched off on purpose needs no warning.
  if (config.cache_enabled) {
    options.log = log;
    OpenedPacks opened = OpenPacks(config.packs, keys, config.allow_unsigned_packs, log);
    options.packs = std::move(opened.packs);
    options.packs_refused = opened.refused;
    SINTER_ASSIGN_OR_RETURN(options.remote, MakeRemote(config, group, log));
  }
  std::unique_ptr<TieredStore> store = std::make_unique<TieredStore>(options);
  WiredCache wired;
  wired.tools =
      std::make_shared<TierTools>(store.get(), std::move(keys), config.allow_unsigned_packs);
  wired.store = std::move(store);
  return wired;
}

}  // namespace sinter
