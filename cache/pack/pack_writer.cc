#include "cache/pack/pack_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/pack/pack_format.h"
#include "cache/pack/pack_table.h"
#include "cache/record/envelope.h"
#include "cache/store/record_store.h"
#include "cache/store/table.h"
#include "src/base/replace_file.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Where the pieces of the table go.
struct Sink {
  FileOps* ops;
  int fd;
  const std::string& path;

  absl::Status Write(absl::string_view piece, uint64_t* bytes, Digest* digest) const {
    *bytes = piece.size();
    *digest = Sha256(piece);
    return WriteAll(ops, fd, piece, /*sync=*/false, path);
  }
};

// NOT_FOUND when the envelope is not a sound one of `item`.
absl::Status Describe(absl::string_view envelope, const PackItem& item, PackEntry* entry,
                      PackManifest* manifest) {
  const EnvelopeVerdict verdict = ReadEnvelope(envelope);
  if (!verdict.ok) return absl::NotFoundError(verdict.detail);
  const Envelope& record = verdict.envelope;
  if (record.kind != item.kind || Sha256(record.key) != item.digest ||
      !ReadEnvelopeFor(envelope, item.kind, record.key).ok) {
    return absl::NotFoundError("record of another key");
  }
  if (envelope.size() + 1024 > kMaxRecordFileBytes) {
    return absl::NotFoundError("record is too large");
  }
  entry->kind = item.kind;
  entry->verified = record.verified;
  entry->digest = item.digest;
  entry->arch = record.arch;
  manifest->created_unix_s = std::max(manifest->created_unix_s, record.created_unix_s);
  return absl::OkStatus();
}

absl::Status AddRecord(const PackItem& item, const EnvelopeSource& source, PackTable* table,
                       const Sink& sink, PackManifest* manifest, PackReport* report) {
  absl::StatusOr<std::string> envelope = source(item);
  PackEntry entry;
  absl::Status status = envelope.status();
  if (status.ok()) status = Describe(*envelope, item, &entry, manifest);
  if (absl::IsNotFound(status)) {
    ++report->skipped;
    return absl::OkStatus();
  }
  SINTER_RETURN_IF_ERROR(status);
  const std::string block = table->Add(TableUserKey(item.kind, item.digest), *envelope);
  entry.offset = manifest->BlockBytes();
  SINTER_RETURN_IF_ERROR(sink.Write(block, &entry.bytes, &entry.block));
  ++(item.kind == RecordKind::kKernel ? report->kernels : report->plans);
  manifest->entries.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::StatusOr<PackManifest> WriteTable(const std::vector<PackItem>& items,
                                        const EnvelopeSource& source, const Sink& sink,
                                        PackReport* report) {
  PackManifest manifest;
  PackTable table;
  for (const PackItem& item : items) {
    SINTER_RETURN_IF_ERROR(AddRecord(item, source, &table, sink, &manifest, report));
  }
  SINTER_RETURN_IF_ERROR(sink.Write(table.Finish(), &manifest.rest_bytes, &manifest.rest));
  return manifest;
}

// What follows the table.
absl::StatusOr<std::string> Seal(const PackManifest& manifest, const SigningKey* signer) {
  std::string bytes = EncodeManifest(manifest);
  if (bytes.size() > kMaxManifestBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("pack: ", manifest.entries.size(), " records are too many"));
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
  SINTER_ASSIGN_OR_RETURN(manifest,
                          WriteTable(items, source, Sink{ops, fd, options.path}, &report));
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
      return envelope;  // unsound ones are found out behind
    }
    return absl::NotFoundError("record is not wanted");
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

// Removes a file of `folder` that did not get its name, however its writing ended.
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

// The folder is opened once: whoever swaps it meanwhile gets neither the file nor its removal.
absl::StatusOr<Fd> OpenFolderOf(FileOps* ops, const std::string& path, std::string* name) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  *name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name->empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  Fd fd(ops, ops->OpenAt(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "open", folder);
  return fd;
}

absl::StatusOr<PackReport> WriteAndRename(const PackWriteOptions& options, FileOps* ops,
                                          const std::vector<PackItem>& items,
                                          const EnvelopeSource& source) {
  const std::string name = RandomName();
  if (name.empty()) return absl::UnavailableError("no random source for a file name");
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
    return absl::ResourceExhaustedError("pack: out of memory");
  }
}

}  // namespace sinter
