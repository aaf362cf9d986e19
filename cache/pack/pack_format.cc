
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

absl::Status Bad(absl::string_view what) { return DataLoss("pack: ", what); }

absl::Status OtherVersion(uint32_t version) {
  return FailedPrecondition("pack: format ", version, ", this library reads ", kPackVersion);
}

// Reads or writes the fields of a manifest that come before its entries.
template <typename Codec, typename Manifest>
void HeadFields(Codec& fields, Manifest& manifest) {
  fields(manifest.created_unix_s, manifest.producer, manifest.rest_bytes, manifest.rest);
}

// Reads or writes an entry.
template <typename Codec, typename Entry>
void EntryFields(Codec& fields, Entry& entry) {
  fields(entry.kind, entry.verified, entry.digest, entry.bytes, entry.block, entry.arch);
}

absl::Status ReadEntry(ByteReader* in, PackEntry* entry) {
  EntryFields(*in, *entry);
  if (!in->ok()) return Bad("manifest ends early, or an entry is marked by neither 0 nor 1");
  if (entry->kind != RecordKind::kPlan && entry->kind != RecordKind::kKernel) {
    return Bad(absl::StrCat("manifest: kind ", static_cast<int>(entry->kind)));
  }
  if (entry->bytes <= kBlockTrailerBytes || entry->bytes > kMostBlockBytes) {
    return Bad(absl::StrCat("manifest: a block of ", entry->bytes, " bytes"));
  }
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
  HeadFields(out, manifest);
  out.U64(manifest.entries.size());
  for (const PackEntry& entry : manifest.entries) EntryFields(out, entry);
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
  HeadFields(in, manifest);
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
  out(tail);
  out.Raw(absl::string_view(kTailMagic, kMagicSize));
  return out.Take();
}

absl::StatusOr<PackTail> DecodeTail(absl::string_view bytes, uint64_t file_bytes) {
  ByteReader in(bytes);
  PackTail tail;
  in(tail);
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
