#include "cache/pack/pack_export.h"

#include <map>
#include <new>
#include <string>
#include <utility>

#include "cache/key/key.h"
#include "cache/record/envelope.h"
#include "cache/record/kernel_record.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// What the store says about a record beside its payload, so that its envelope can be made again.
struct Known {
  bool in_store = false;
  int64_t created_unix_s = 0;
  std::string key, producer;
};
using Id = std::pair<RecordKind, Digest>;
using Index = std::map<Id, Known>;

absl::Status IndexStore(RecordStore* store, Index* index) {
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

absl::StatusOr<std::string> FromStore(RecordStore* store, const PackItem& item,
                                      const Known& known) {
  const Lookup found = store->Get(item.kind, known.key, item.digest);
  if (!found.hit) return absl::NotFoundError(found.detail);
  Envelope envelope;
  envelope.kind = item.kind;
  envelope.verified = item.kind == RecordKind::kKernel && KernelPayloadVerified(found.payload);
  envelope.created_unix_s = known.created_unix_s;
  envelope.producer = known.producer;
  envelope.arch = ArchOfKey(known.key);
  envelope.key = known.key;
  envelope.payload = found.payload;
  return EncodeEnvelope(envelope);
}

absl::StatusOr<std::string> FromPacks(const PackList& packs, const PackItem& item) {
  for (const auto& pack : packs) {
    const auto bytes = pack->ReadEnvelopeBytes(item.kind, item.digest);
    if (bytes.ok()) return bytes->str();
  }
  return absl::NotFoundError("record is in no tier");
}

void IndexPacks(RecordStore* store, const PackList& packs, Index* index) {
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

absl::StatusOr<PackReport> ExportUnguarded(RecordStore* store, const PackList& packs,
                                           const std::vector<PackItem>* only,
                                           const PackWriteOptions& options) {
  Index index;
  if (store != nullptr) SINTER_RETURN_IF_ERROR(IndexStore(store, &index));
  IndexPacks(store, packs, &index);
  const auto source = [&](const PackItem& item) -> absl::StatusOr<std::string> {
    const auto found = index.find(Id(item.kind, item.digest));
    if (found == index.end()) return absl::NotFoundError("record is in no tier");
    if (found->second.in_store) {
      absl::StatusOr<std::string> bytes = FromStore(store, item, found->second);
      if (bytes.ok()) return bytes;
    }
    return FromPacks(packs, item);
  };
  return WritePack(options, ItemsOf(index, only), source);
}

// Whether the pack's record is what its entry and `check` say.
bool IsSound(const PackEntry& entry, const EnvelopeVerdict& verdict, const RecordCheck& check) {
  const Envelope& envelope = verdict.envelope;
  return verdict.ok && Sha256(envelope.key) == entry.digest && envelope.kind == entry.kind &&
         RunCheck(check, envelope.kind, envelope.key, envelope.payload).ok();
}

absl::StatusOr<ImportReport> ImportUnguarded(const PackReader& pack, RecordStore* store,
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
    if (!put.ok() && !own) return put;  // no fault of this record
    ++(put.ok() ? report.stored : report.refused);
  }
  return report;
}

template <typename Report, typename Call>
absl::StatusOr<Report> Guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("pack: out of memory");
  }
}

}  // namespace

absl::StatusOr<PackReport> ExportPack(RecordStore* store, const PackList& packs,
                                      const std::vector<PackItem>* only,
                                      const PackWriteOptions& options) {
  return Guarded<PackReport>([&] { return ExportUnguarded(store, packs, only, options); });
}

absl::StatusOr<ImportReport> ImportPack(const PackReader& pack, RecordStore* store,
                                        const RecordCheck& check) {
  return Guarded<ImportReport>([&] { return ImportUnguarded(pack, store, check); });
}

}  // namespace sinter
