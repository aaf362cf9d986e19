#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/pack/pack.h"
#include "cache/record/record.h"
#include "cache/store/local_store.h"
#include "cache/store/table.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

// The table while it is written: LevelDB writes each piece into memory, where it is hashed before
// it goes to the file.
class PackTable {
 public:
  PackTable(FileOps* ops, int fd, const std::string& path) : ops_(ops), fd_(fd), path_(path) {}

  // Writes one record's block, or what follows the last block; returns its size and SHA-256.
  absl::Status Add(absl::string_view key, absl::string_view value, uint64_t* bytes,
                   Digest* digest) {
    table_.Add(key, value);
    return Write(bytes, digest);
  }
  absl::Status Finish(uint64_t* bytes, Digest* digest) {
    table_.Finish();
    return Write(bytes, digest);
  }

 private:
  absl::Status Write(uint64_t* bytes, Digest* digest) {
    *bytes = piece_.size();
    *digest = Sha256(piece_);
    const absl::Status written = WriteAll(ops_, fd_, piece_, /*sync=*/false, path_);
    piece_.clear();
    return written;
  }

  FileOps* const ops_;
  const int fd_;
  const std::string& path_;
  std::string piece_;
  TableWriter table_{&piece_};
};

// NOT_FOUND when the envelope is not a sound one of `item`.
absl::Status Describe(absl::string_view envelope, const PackItem& item, PackEntry* entry,
                      PackManifest* manifest) {
  const EnvelopeVerdict verdict = ReadEnvelopeOf(envelope, item.kind, item.digest);
  if (!verdict.ok) return NotFound(verdict.detail);
  const Envelope& record = verdict.envelope;
  if (envelope.size() + kMostTableOverhead > kMaxRecordFileBytes) {
    return NotFound("record is too large");
  }
  entry->kind = item.kind;
  entry->verified = record.verified;
  entry->digest = item.digest;
  entry->arch = record.arch;
  manifest->created_unix_s = std::max(manifest->created_unix_s, record.created_unix_s);
  return absl::OkStatus();
}

absl::Status AddRecord(const PackItem& item, const EnvelopeSource& source, PackTable* table,
                       PackManifest* manifest, PackReport* report) {
  absl::StatusOr<std::string> envelope = source(item);
  PackEntry entry;
  absl::Status status = envelope.status();
  if (status.ok()) status = Describe(*envelope, item, &entry, manifest);
  if (absl::IsNotFound(status)) {
    ++report->skipped;
    return absl::OkStatus();
  }
  SINTER_RETURN_IF_ERROR(status);
  entry.offset = manifest->BlockBytes();
  SINTER_RETURN_IF_ERROR(
      table->Add(TableUserKey(item.kind, item.digest), *envelope, &entry.bytes, &entry.block));
  ++(item.kind == RecordKind::kKernel ? report->kernels : report->plans);
  manifest->entries.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<PackManifest> WriteTable(const std::vector<PackItem>& items,
                                        const EnvelopeSource& source, PackTable* table,
                                        PackReport* report) {
  PackManifest manifest;
  for (const PackItem& item : items) {
    SINTER_RETURN_IF_ERROR(AddRecord(item, source, table, &manifest, report));
  }
  SINTER_RETURN_IF_ERROR(table->Finish(&manifest.rest_bytes, &manifest.rest));
  return manifest;
}

// The bytes that follow the table.
absl::StatusOr<std::string> Seal(const PackManifest& manifest, const SigningKey* signer) {
  std::string bytes = EncodeManifest(manifest);
  if (bytes.size() > kMaxManifestBytes) {
    return ResourceExhausted("pack: ", manifest.entries.size(), " records are too many");
  }
  PackTail tail;
  tail.table_bytes = manifest.BlockBytes() + manifest.rest_bytes;
  tail.manifest_bytes = bytes.size();
  tail.manifest = Sha256(bytes);
  if (signer != nullptr) {
    SINTER_ASSIGN_OR_RETURN(const std::string signature,
                            signer->Sign(SignedMessage(tail.manifest)));
    absl::StrAppend(&bytes, signer->public_key().View(), signature);
    tail.signature_bytes = kPackSignatureBytes;
  }
  return absl::StrCat(bytes, EncodeTail(tail));
}

absl::StatusOr<PackReport> WriteTo(const PackWriteOptions& options, FileOps* ops, int fd,
                                   const std::vector<PackItem>& items,
                                   const EnvelopeSource& source) {
  PackReport report;
  PackManifest manifest;
  PackTable table(ops, fd, options.path);
  SINTER_ASSIGN_OR_RETURN(manifest, WriteTable(items, source, &table, &report));
  if (manifest.entries.empty()) {
    return FailedPrecondition(
        options.path, ": no pack was written: ",
        report.skipped == 0 ? std::string("there is no record to write")
                            : absl::StrCat("of ", report.skipped,
                                           " records none is sound and of this library version"),
        "; make the records first (sinter warm WORKLOAD), in the same cache folder");
  }
  manifest.producer = options.producer;
  SINTER_ASSIGN_OR_RETURN(const std::string seal, Seal(manifest, options.signer));
  SINTER_RETURN_IF_ERROR(WriteAll(ops, fd, seal, /*sync=*/true, options.path));
  report.bytes = manifest.BlockBytes() + manifest.rest_bytes + seal.size();
  return report;
}

EnvelopeSource WantedOf(const PackWriteOptions& options, const EnvelopeSource& source) {
  return [&options, &source](const PackItem& item) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> envelope = source(item);
    if (!envelope.ok()) return envelope;
    const EnvelopeVerdict verdict = ReadEnvelope(*envelope);
    if (!verdict.ok || options.wanted(item.kind, verdict.envelope.key, verdict.envelope.payload)) {
      return envelope;  // an unsound one is found later
    }
    return NotFound("record is not wanted");
  };
}

void SortUnique(std::vector<PackItem>* items) {
  const auto less = [](const PackItem& a, const PackItem& b) {
    if (a.kind != b.kind) return a.kind == RecordKind::kKernel;
    return a.digest < b.digest;
  };
  const auto equal = [](const PackItem& a, const PackItem& b) {
    return a.kind == b.kind && a.digest == b.digest;
  };
  std::sort(items->begin(), items->end(), less);
  items->erase(std::unique(items->begin(), items->end(), equal), items->end());
}

// Removes a temporary file of `folder`, unless it got its final name, however the writing ended.
class TempFile {
 public:
  TempFile(FileOps* ops, int folder, const std::string& name)
      : ops_(ops), folder_(folder), name_(name) {}
  ~TempFile() {
    if (!named_) ops_->UnlinkAt(folder_, name_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  absl::Status Rename(const std::string& to) {
    named_ = ops_->RenameAt(folder_, name_.c_str(), to.c_str(), 0) == 0;
    return named_ ? absl::OkStatus() : ErrnoStatus(errno, "rename", to);
  }

 private:
  FileOps* const ops_;
  const int folder_;
  const std::string& name_;
  bool named_ = false;
};

// The folder is opened once: if somebody replaces it meanwhile, the file is neither made nor
// removed in the new one.
absl::StatusOr<Fd> OpenFolderOf(FileOps* ops, const std::string& path, std::string* name) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  *name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name->empty()) return Invalid(path, ": names a folder, must name a file");
  Fd fd(ops, ops->OpenAt(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  return fd;
}

absl::StatusOr<PackReport> WriteAndRename(const PackWriteOptions& options, FileOps* ops,
                                          const std::vector<PackItem>& items,
                                          const EnvelopeSource& source) {
  const std::string name = RandomName();
  if (name.empty()) return Unavailable("no random source for a file name");
  std::string last;
  SINTER_ASSIGN_OR_RETURN(const Fd folder, OpenFolderOf(ops, options.path, &last));
  const std::string temp = absl::StrCat(last, ".tmp-", name);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  Fd fd(ops, ops->OpenAt(folder.get(), temp.c_str(), flags, 0644));
  if (!fd.valid()) return ErrnoStatus(errno, "create", absl::StrCat(options.path, ".tmp-", name));
  TempFile file(ops, folder.get(), temp);
  SINTER_ASSIGN_OR_RETURN(const PackReport report, WriteTo(options, ops, fd.get(), items, source));
  fd = Fd();  // closed before it gets its name
  const absl::Status named = file.Rename(last);
  if (!named.ok()) return Annotate(named, options.path);
  return report;
}

}  // namespace

absl::StatusOr<PackReport> WritePack(const PackWriteOptions& options, std::vector<PackItem> items,
                                     const EnvelopeSource& source) {
  FileOps real;
  FileOps* ops = options.ops != nullptr ? options.ops.get() : &real;
  try {
    PackWriteOptions placed = options;
    SINTER_ASSIGN_OR_RETURN(placed.path, ReplaceablePath(options.path));
    SortUnique(&items);
    if (placed.wanted == nullptr) return WriteAndRename(placed, ops, items, source);
    return WriteAndRename(placed, ops, items, WantedOf(placed, source));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("pack: out of memory");
  }
}

namespace {

// A record as the store describes it, without the payload. The pack writes its envelope from this.
struct Known {
  bool in_store = false;
  int64_t created_unix_s = 0;
  std::string key, producer;
};
using Id = std::pair<RecordKind, Digest>;
using Index = std::map<Id, Known>;

absl::Status IndexStore(LocalStore* store, Index* index) {
  RecordVisitor visitor;
  visitor.record = [index](const Digest& digest, const Envelope& envelope) {
    Known& known = (*index)[Id(envelope.kind, digest)];
    known.in_store = true;
    known.created_unix_s = envelope.created_unix_s;
    known.key = std::string(envelope.key);
    known.producer = envelope.producer;
    return absl::OkStatus();
  };
  return store->ForEach(visitor);
}

absl::StatusOr<std::string> FromStore(LocalStore* store, const PackItem& item, const Known& known) {
  const Lookup found = store->Get(item.kind, known.key, item.digest);
  if (!found.hit) return NotFound(found.detail);
  return EncodeEnvelope(
      MakeEnvelope(item.kind, known.key, found.payload, known.producer, known.created_unix_s));
}

absl::StatusOr<std::string> FromPacks(const PackList& packs, const PackItem& item) {
  for (const auto& pack : packs) {
    const auto bytes = pack->ReadEnvelopeBytes(item.kind, item.digest);
    if (bytes.ok()) return bytes->str();
  }
  return NotFound("record is in no tier");
}

void IndexPacks(LocalStore* store, const PackList& packs, Index* index) {
  for (const auto& pack : packs) {
    for (const PackEntry& entry : pack->manifest().entries) {
      if (store != nullptr && store->IsQuarantined(entry.kind, entry.digest, nullptr)) continue;
      index->emplace(Id(entry.kind, entry.digest), Known());
    }
  }
}

std::vector<PackItem> ItemsOf(const Index& index, const std::vector<PackItem>* only) {
  if (only != nullptr) return *only;
  std::vector<PackItem> items;
  items.reserve(index.size());
  for (const auto& [id, known] : index) items.push_back(PackItem{id.first, id.second});
  return items;
}

absl::StatusOr<PackReport> ExportUnguarded(LocalStore* store, const PackList& packs,
                                           const std::vector<PackItem>* only,
                                           const PackWriteOptions& options) {
  Index index;
  if (store != nullptr) SINTER_RETURN_IF_ERROR(IndexStore(store, &index));
  IndexPacks(store, packs, &index);
  const auto source = [&](const PackItem& item) -> absl::StatusOr<std::string> {
    const auto found = index.find(Id(item.kind, item.digest));
    if (found == index.end()) return NotFound("record is in no tier");
    if (found->second.in_store) {
      absl::StatusOr<std::string> bytes = FromStore(store, item, found->second);
      if (bytes.ok()) return bytes;
    }
    return FromPacks(packs, item);
  };
  return WritePack(options, ItemsOf(index, only), source);
}

// Whether the pack's record agrees with its entry and passes `check`.
bool IsSound(const PackEntry& entry, const EnvelopeVerdict& verdict, const RecordCheck& check) {
  const Envelope& envelope = verdict.envelope;
  return verdict.ok && Sha256(envelope.key) == entry.digest && envelope.kind == entry.kind &&
         RunCheck(check, envelope.kind, envelope.key, envelope.payload).ok();
}

absl::StatusOr<ImportReport> ImportUnguarded(const PackReader& pack, LocalStore* store,
                                             const RecordCheck& check) {
  SINTER_RETURN_IF_ERROR(store->usable());
  ImportReport report;
  for (const PackEntry& entry : pack.manifest().entries) {
    const auto bytes = pack.ReadEnvelopeBytes(entry.kind, entry.digest);
    const EnvelopeVerdict verdict = bytes.ok() ? ReadEnvelope(*bytes) : EnvelopeVerdict();
    if (!IsSound(entry, verdict, check)) {
      ++report.refused;
      continue;
    }
    const absl::Status put = store->PutRecord(entry.digest, verdict.envelope);
    const bool own = absl::IsFailedPrecondition(put) || absl::IsOutOfRange(put);
    if (!put.ok() && !own) return put;  // the trouble is not this record's
    ++(put.ok() ? report.stored : report.refused);
  }
  return report;
}

template <typename Report, typename Call>
absl::StatusOr<Report> Guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("pack: out of memory");
  }
}

}  // namespace

absl::StatusOr<PackReport> ExportPack(LocalStore* store, const PackList& packs,
                                      const std::vector<PackItem>* only,
                                      const PackWriteOptions& options) {
  return Guarded<PackReport>([&] { return ExportUnguarded(store, packs, only, options); });
}

absl::StatusOr<ImportReport> ImportPack(const PackReader& pack, LocalStore* store,
                                        const RecordCheck& check) {
  return Guarded<ImportReport>([&] { return ImportUnguarded(pack, store, check); });
}

}  // namespace sinter
