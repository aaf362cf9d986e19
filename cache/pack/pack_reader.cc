#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/pack/pack.h"
#include "src/base/digest.h"
#include "src/base/format.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// What to say about a refused pack: the command's option and the variable that accept it. The
// fields of the C interface have the same names.
constexpr absl::string_view kTakeUnsigned =
    "--unsigned (SINTER_PACKS_UNSIGNED=1) takes it whoever made it";
constexpr absl::string_view kTrustAKey =
    "--pack-keys FILE (SINTER_PACK_KEYS) names the public keys of who may sign";

absl::Status AtPath(const absl::Status& status, const std::string& path) {
  return status.ok() ? status : Annotate(status, path);
}

bool Contains(const std::vector<PublicKey>& keys, const PublicKey& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PackReader>> PackReader::Open(const PackOptions& options) {
  try {
    std::unique_ptr<PackReader> reader(new PackReader());
    reader->path_ = options.path;
    reader->ops_ = options.ops != nullptr ? options.ops : std::make_shared<FileOps>();
    reader->format_ = options.format;
    const absl::Status loaded = reader->Load(options);
    if (!loaded.ok()) return AtPath(loaded, options.path);
    return std::unique_ptr<const PackReader>(std::move(reader));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(options.path, ": out of memory");
  }
}

absl::Status PackReader::Load(const PackOptions& options) {
  // O_NONBLOCK: a fifo must not hang the open; regular files ignore it.
  fd_ = Fd(ops_.get(), ops_->OpenAt(AT_FDCWD, path_.c_str(), O_RDONLY | O_NONBLOCK, 0));
  if (!fd_.valid()) return ErrnoStatus(errno, "open", "pack");
  struct stat st;
  if (ops_->Stat(fd_.get(), &st) != 0) return ErrnoStatus(errno, "stat", "pack");
  if (!S_ISREG(st.st_mode)) return PermissionDenied("pack: not a regular file");
  file_bytes_ = static_cast<uint64_t>(st.st_size);
  if (file_bytes_ < kPackTailBytes) {
    return DataLoss("pack: ", file_bytes_, " bytes, must be at least ", kPackTailBytes,
                    "; this is no pack, or it was cut");
  }
  SINTER_ASSIGN_OR_RETURN(const SharedBytes end,
                          ReadAt(file_bytes_ - kPackTailBytes, kPackTailBytes));
  SINTER_ASSIGN_OR_RETURN(const PackTail tail, DecodeTail(end, file_bytes_));
  SINTER_ASSIGN_OR_RETURN(const SharedBytes manifest,
                          ReadAt(tail.table_bytes, tail.manifest_bytes));
  if (Sha256(manifest) != tail.manifest) return DataLoss("pack: the manifest's sha-256 differs");
  SINTER_RETURN_IF_ERROR(CheckSignatures(options, tail));
  if (signers_.empty()) SINTER_RETURN_IF_ERROR(CheckOwner(st, "pack"));
  SINTER_ASSIGN_OR_RETURN(manifest_, DecodeManifest(manifest));
  if (manifest_.entries.empty()) {
    return FailedPrecondition(
        "pack: it holds no record and can serve nothing: export it again from a warm cache (sinter "
        "warm WORKLOAD --pack FILE)");
  }
  if (manifest_.BlockBytes() + manifest_.rest_bytes != tail.table_bytes) {
    return DataLoss("pack: the manifest's blocks do not make up the table");
  }
  return OpenTable();
}

// LevelDB sees only bytes of the table that match the manifest: the index and the bytes around it
// are checked here, a block when it is read.
absl::Status PackReader::OpenTable() {
  const uint64_t blocks = manifest_.BlockBytes();
  SINTER_ASSIGN_OR_RETURN(const SharedBytes rest, ReadAt(blocks, manifest_.rest_bytes));
  if (Sha256(rest) != manifest_.rest) {
    return DataLoss("pack: the table's index differs from the manifest");
  }
  const auto source = [this, rest, blocks](uint64_t offset, char* to, size_t bytes) {
    if (offset < blocks) return ReadBlock(offset, to, bytes);
    const absl::string_view part = rest.view().substr(offset - blocks);
    if (part.size() < bytes) return DataLoss("pack: the table ends early");
    std::copy_n(part.data(), bytes, to);
    return absl::OkStatus();
  };
  SINTER_ASSIGN_OR_RETURN(table_, TableReader::Open(source, blocks + manifest_.rest_bytes));
  return absl::OkStatus();
}

absl::Status PackReader::ReadBlock(uint64_t offset, char* to, size_t bytes) const {
  const auto& entries = manifest_.entries;
  const auto entry =
      std::lower_bound(entries.begin(), entries.end(), offset,
                       [](const PackEntry& a, uint64_t at) { return a.offset < at; });
  if (entry == entries.end() || entry->offset != offset || entry->bytes != bytes) {
    return DataLoss("pack: the table's blocks differ from the manifest's");
  }
  const ssize_t got = PReadAll(ops_.get(), fd_.get(), offset, to, bytes);
  if (got < 0) return ErrnoStatus(errno, "read", "pack");
  if (static_cast<size_t>(got) < bytes) return DataLoss("pack: it ended early");
  if (Sha256(absl::string_view(to, bytes)) != entry->block) {
    return DataLoss("pack: a block's sha-256 differs");
  }
  return absl::OkStatus();
}

absl::Status PackReader::CheckSignatures(const PackOptions& options, const PackTail& tail) {
  SINTER_ASSIGN_OR_RETURN(const SharedBytes bytes,
                          ReadAt(tail.table_bytes + tail.manifest_bytes, tail.signature_bytes));
  const std::string message = SignedMessage(tail.manifest);
  for (size_t at = 0; at < bytes.size(); at += kPackSignatureBytes) {
    PublicKey key;
    std::copy_n(bytes.data() + at, kPublicKeyBytes, key.bytes.begin());
    const absl::string_view signature = bytes.view().substr(at + kPublicKeyBytes, kSignatureBytes);
    if (!VerifySignature(key, message, signature)) {
      return DataLoss("pack: signature ", at / kPackSignatureBytes, " does not hold");
    }
    if (Contains(options.keys, key)) signers_.push_back(key);
  }
  if (!signers_.empty() || options.allow_unsigned) return absl::OkStatus();
  if (bytes.empty()) {
    return PermissionDenied("pack: it is not signed, and unsigned packs are not allowed; ",
                            kTakeUnsigned);
  }
  return PermissionDenied("pack: signed by none of the ", options.keys.size(), " trusted keys; ",
                          kTrustAKey, ", ", kTakeUnsigned);
}

absl::StatusOr<SharedBytes> PackReader::ReadAt(uint64_t offset, uint64_t size) const {
  return ReadExactly(ops_.get(), fd_.get(), offset, size, "pack");
}

const PackEntry* PackReader::Find(RecordKind kind, const Digest& digest) const {
  PackEntry wanted;
  wanted.kind = kind;
  wanted.digest = digest;
  const auto& entries = manifest_.entries;
  const auto it = std::lower_bound(entries.begin(), entries.end(), wanted, PackOrder);
  const bool found = it != entries.end() && it->kind == kind && it->digest == digest;
  return found ? &*it : nullptr;
}

absl::StatusOr<SharedBytes> PackReader::ReadEnvelopeBytes(RecordKind kind,
                                                          const Digest& digest) const {
  if (!Has(kind, digest)) return NotFound("pack: no such record");
  try {
    absl::StatusOr<SharedBytes> found = table_->Find(TableUserKey(kind, digest));
    if (!absl::IsNotFound(found.status())) return found;
    return DataLoss("pack: the table lacks a record of the manifest");
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("pack: out of memory");
  }
}

std::string PackReader::PeekKey(const PackEntry& entry) const {
  constexpr uint64_t kHead = 64 << 10;
  const auto head = ReadAt(entry.offset, std::min(entry.bytes, kHead));
  if (!head.ok()) return std::string();
  const std::string name = TableUserKey(entry.kind, entry.digest);
  const size_t at = head->view().find(name);
  return at == absl::string_view::npos ? std::string()
                                       : PeekEnvelopeKey(head->view().substr(at + name.size()));
}

Lookup PackReader::Find(RecordKind kind, absl::string_view key, const Digest& digest) const {
  const PackEntry* entry = Find(kind, digest);
  if (entry == nullptr) return Lookup::Miss(MissReason::kAbsent, "");
  const absl::StatusOr<SharedBytes> bytes = ReadEnvelopeBytes(kind, digest);
  if (!bytes.ok()) {
    const MissReason reason =
        absl::IsDataLoss(bytes.status()) ? MissReason::kDamaged : MissReason::kIoError;
    return Lookup::Miss(reason,
                        absl::StrCat(path_, ": ", digest.Hex(), ": ", bytes.status().message()));
  }
  // In a signed pack the block's hash covers the envelope. Anyone can have written an unsigned
  // pack, so its envelope is hashed again.
  const EnvelopeVerdict verdict = signers_.empty()
                                      ? ReadEnvelopeFor(*bytes, kind, key, format_)
                                      : ReadVouchedEnvelopeFor(*bytes, kind, key, format_);
  if (!verdict.ok) {
    return Lookup::Miss(verdict.reason,
                        absl::StrCat(path_, ": ", digest.Hex(), ": ", verdict.detail));
  }
  Lookup hit;
  hit.hit = true;
  hit.payload = bytes->Slice(verdict.envelope.payload);
  hit.tier = "pack";
  return hit;
}

Lookup PackReader::Get(RecordKind kind, absl::string_view key, const Digest& digest) const {
  try {
    return Find(kind, key, digest);
  } catch (const std::bad_alloc&) {
    return Lookup::Miss(MissReason::kIoError, "out of memory");  // too short to be allocated
  }
}

namespace {

constexpr size_t kMaxFindings = 100;

void Note(PackFindings* out, absl::string_view finding) {
  ++out->unsound;
  if (out->findings.size() < kMaxFindings) out->findings.emplace_back(finding);
}

// OK when a look-up with the record's own key would return it, and the manifest describes it
// rightly.
absl::Status CheckRecord(const PackReader& pack, const PackEntry& entry, const RecordCheck& check) {
  SINTER_ASSIGN_OR_RETURN(const SharedBytes bytes,
                          pack.ReadEnvelopeBytes(entry.kind, entry.digest));
  const EnvelopeVerdict verdict = ReadEnvelopeOf(bytes, entry.kind, entry.digest);
  if (!verdict.ok) return DataLoss(verdict.detail);
  const Envelope& record = verdict.envelope;
  if (record.verified != entry.verified || record.arch != entry.arch) {
    return DataLoss("the manifest describes another record");
  }
  return RunCheck(check, entry.kind, record.key, record.payload);
}

}  // namespace

PackFindings VerifyPack(const PackReader& pack, const RecordCheck& check) {
  PackFindings out;
  try {
    for (const PackEntry& entry : pack.manifest().entries) {
      const absl::Status status = CheckRecord(pack, entry, check);
      if (!status.ok()) {
        Note(&out, absl::StrCat(entry.digest.Hex(), ": ", status.message()));
        continue;
      }
      ++(entry.kind == RecordKind::kKernel ? out.kernels : out.plans);
      if (entry.verified) ++out.verified_kernels;
    }
  } catch (const std::bad_alloc&) {
    Note(&out, "out of memory");
  }
  return out;
}

OpenedPacks OpenPacks(const std::vector<std::string>& paths, const std::vector<PublicKey>& keys,
                      bool allow_unsigned, const LogSink& log) {
  OpenedPacks opened;
  for (const std::string& path : paths) {
    PackOptions options;
    options.path = path;
    options.keys = keys;
    options.allow_unsigned = allow_unsigned;
    auto pack = PackReader::Open(options);
    if (!pack.ok()) {
      ++opened.refused;
      log.Log(LogLevel::kWarn, absl::StrCat("cache: pack refused: ", pack.status().message()));
      continue;
    }
    log.Log(LogLevel::kInfo, absl::StrCat("cache: pack ", path, ": ",
                                          Counted((*pack)->manifest().entries.size(), "record")));
    opened.packs.push_back(*std::move(pack));
  }
  return opened;
}

absl::StatusOr<std::vector<PublicKey>> ReadPublicKeys(const std::string& path) {
  if (path.empty()) return std::vector<PublicKey>();
  SINTER_ASSIGN_OR_RETURN(const std::string pem, ReadKeyFile(path, KeyFileKind::kPublic));
  auto keys = PublicKeysFromPem(pem);
  return keys.ok() ? std::move(keys) : Annotate(keys.status(), absl::StrCat("key file ", path));
}

absl::StatusOr<SigningKey> ReadSigningKey(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(std::string pem, ReadKeyFile(path, KeyFileKind::kSecret));
  auto key = SigningKey::FromPem(pem);
  for (char& c : pem) *const_cast<volatile char*>(&c) = '\0';
  if (!key.ok()) return Annotate(key.status(), absl::StrCat("key file ", path));
  return key;
}

}  // namespace sinter
