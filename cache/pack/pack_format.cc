#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cache/pack/pack.h"
#include "cache/store/table.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kManifestMagic[] = "SNTRPMF\n";
constexpr char kTailMagic[] = "SNTRPAK\n";
constexpr uint64_t kMagicSize = 8;
constexpr uint64_t kLeastEntryBytes = 2 + 32 + 8 + 32 + 8;
constexpr uint64_t kMostBytes = uint64_t{1} << 62;  // so that no sum overflows
// Bounds of a table's bytes after its data blocks. Each record adds at most kMostIndexBytes: the
// index entry's key, handle, lengths and restart point. Everything else, such as the footer, is
// there once.
constexpr uint64_t kMostIndexBytes = 64, kMostRestBytes = 128;

absl::Status Bad(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("pack: ", what));
}

absl::Status OtherVersion(uint32_t version) {
  return absl::FailedPreconditionError(
      absl::StrCat("pack: format ", version, ", this library reads ", kPackVersion));
}

Digest ReadDigest(ByteReader* in) {
  Digest digest;
  const absl::string_view raw = in->Raw(digest.bytes.size());
  if (raw.size() == digest.bytes.size()) std::copy(raw.begin(), raw.end(), digest.bytes.begin());
  return digest;
}

absl::Status ReadEntry(ByteReader* in, PackEntry* entry) {
  const uint8_t kind = in->U8(), verified = in->U8();
  entry->digest = ReadDigest(in);
  entry->bytes = in->U64();
  entry->block = ReadDigest(in);
  entry->arch = std::string(in->Bytes());
  if (!in->ok()) return Bad("manifest ends early");
  if (kind != static_cast<uint8_t>(RecordKind::kPlan) &&
      kind != static_cast<uint8_t>(RecordKind::kKernel)) {
    return Bad(absl::StrCat("manifest: kind ", kind));
  }
  if (verified > 1) return Bad(absl::StrCat("manifest: verified ", verified));
  if (entry->bytes <= kBlockTrailerBytes || entry->bytes > kMostBlockBytes) {
    return Bad(absl::StrCat("manifest: a block of ", entry->bytes, " bytes"));
  }
  entry->kind = static_cast<RecordKind>(kind);
  entry->verified = verified == 1;
  return absl::OkStatus();
}

absl::Status ReadEntries(ByteReader* in, uint64_t count, std::vector<PackEntry>* entries) {
  if (count > in->remaining() / kLeastEntryBytes) {
    return Bad(absl::StrCat("manifest: ", count, " entries do not fit into it"));
  }
  entries->resize(count);
  uint64_t offset = 0;
  for (uint64_t i = 0; i < count; ++i) {
    PackEntry& entry = (*entries)[i];
    SINTER_RETURN_IF_ERROR(ReadEntry(in, &entry));
    if (i > 0 && !PackOrder((*entries)[i - 1], entry)) return Bad("manifest: order of entries");
    entry.offset = offset;
    offset += entry.bytes;
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t PackManifest::BlockBytes() const {
  return entries.empty() ? 0 : entries.back().offset + entries.back().bytes;
}

bool PackOrder(const PackEntry& a, const PackEntry& b) {
  if (a.kind != b.kind) return a.kind == RecordKind::kKernel;
  return a.digest < b.digest;
}

std::string EncodeManifest(const PackManifest& manifest) {
  ByteWriter out;
  out.Raw(absl::string_view(kManifestMagic, kMagicSize));
  out.U32(kPackVersion);
  out.I64(manifest.created_unix_s);
  out.Bytes(manifest.producer);
  out.U64(manifest.rest_bytes);
  out.Raw(manifest.rest.View());
  out.U64(manifest.entries.size());
  for (const PackEntry& entry : manifest.entries) {
    out.U8(static_cast<uint8_t>(entry.kind));
    out.U8(entry.verified ? 1 : 0);
    out.Raw(entry.digest.View());
    out.U64(entry.bytes);
    out.Raw(entry.block.View());
    out.Bytes(entry.arch);
  }
  return out.Take();
}

absl::StatusOr<PackManifest> DecodeManifest(absl::string_view bytes) {
  ByteReader in(bytes);
  const absl::string_view magic = in.Raw(kMagicSize);
  const uint32_t version = in.U32();
  if (!in.ok() || magic != absl::string_view(kManifestMagic, kMagicSize)) {
    return Bad("manifest: magic differs");
  }
  if (version != kPackVersion) return OtherVersion(version);
  PackManifest manifest;
  manifest.created_unix_s = in.I64();
  manifest.producer = std::string(in.Bytes());
  manifest.rest_bytes = in.U64();
  manifest.rest = ReadDigest(&in);
  const uint64_t count = in.U64();
  if (!in.ok() || manifest.rest_bytes > kMostBytes) return Bad("manifest: head");
  SINTER_RETURN_IF_ERROR(ReadEntries(&in, count, &manifest.entries));
  if (!in.AtEnd()) return Bad("manifest: bytes are left over");
  if (manifest.rest_bytes > kMostRestBytes + count * kMostIndexBytes) {
    return Bad(absl::StrCat("manifest: an index of ", manifest.rest_bytes, " bytes for ", count,
                            " records"));
  }
  return manifest;
}

std::string EncodeTail(const PackTail& tail) {
  ByteWriter out;
  out.U64(tail.table_bytes);
  out.U64(tail.manifest_bytes);
  out.U64(tail.signature_bytes);
  out.Raw(tail.manifest.View());
  out.Raw(absl::string_view(kTailMagic, kMagicSize));
  return out.Take();
}

absl::StatusOr<PackTail> DecodeTail(absl::string_view bytes, uint64_t file_bytes) {
  ByteReader in(bytes);
  PackTail tail;
  tail.table_bytes = in.U64();
  tail.manifest_bytes = in.U64();
  tail.signature_bytes = in.U64();
  tail.manifest = ReadDigest(&in);
  const absl::string_view magic = in.Raw(kMagicSize);
  if (!in.AtEnd() || magic != absl::string_view(kTailMagic, kMagicSize)) {
    return Bad("tail: magic differs; this is no pack, or it was cut");
  }
  if (tail.manifest_bytes > kMaxManifestBytes ||
      tail.signature_bytes > kMaxPackSignatures * kPackSignatureBytes ||
      tail.signature_bytes % kPackSignatureBytes != 0 || tail.table_bytes > kMostBytes ||
      tail.table_bytes + tail.manifest_bytes + tail.signature_bytes + kPackTailBytes !=
          file_bytes) {
    return Bad("tail: sizes do not add up to the file's");
  }
  return tail;
}

std::string SignedMessage(const Digest& manifest) {
  return absl::StrCat("sinter pack signature 1\n", manifest.View());
}

}  // namespace sinter
