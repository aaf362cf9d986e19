#include "cache/pack/pack_verify.h"

#include <new>

#include "absl/strings/str_cat.h"
#include "cache/store/table.h"
#include "cache/store/table_map.h"
#include "src/base/status.h"

namespace sinter {

// Reads a pack as the friend of PackReader that this file is.
class PackVerifier {
 public:
  explicit PackVerifier(const PackReader& pack)
      : pack_(pack), table_bytes_(pack.manifest_.BlockBytes() + pack.manifest_.rest_bytes) {}

  // OK when a look-up with the record's own key would be served, and the manifest says the truth.
  absl::Status CheckRecord(const PackEntry& entry, const RecordCheck& check) const {
    SINTER_ASSIGN_OR_RETURN(const SharedBytes block, pack_.ReadBlock(entry));
    SINTER_RETURN_IF_ERROR(CheckBlockCrc(block, "data"));
    SINTER_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            EnvelopeOfBlock(block, TableUserKey(entry.kind, entry.digest)));
    const EnvelopeVerdict own = ReadEnvelope(bytes);
    if (!own.ok) return absl::DataLossError(own.detail);
    const EnvelopeVerdict verdict = ReadEnvelopeFor(bytes, entry.kind, own.envelope.key);
    if (!verdict.ok) return absl::DataLossError(verdict.detail);
    if (Sha256(own.envelope.key) != entry.digest) {
      return absl::DataLossError("record of another key");
    }
    if (own.envelope.verified != entry.verified || own.envelope.arch != entry.arch) {
      return absl::DataLossError("the manifest describes another record");
    }
    return RunCheck(check, entry.kind, own.envelope.key, own.envelope.payload);
  }

  // What follows the blocks is what the manifest says, and a reader of LevelDB tables finds exactly
  // the manifest's blocks by it.
  absl::Status CheckIndex() const {
    const PackManifest& manifest = pack_.manifest_;
    SINTER_ASSIGN_OR_RETURN(const SharedBytes rest,
                            pack_.ReadAt(manifest.BlockBytes(), manifest.rest_bytes));
    if (Sha256(rest) != manifest.rest) {
      return absl::DataLossError("pack: the table's index differs from the manifest");
    }
    if (rest.view().substr(0, kMetaBlock.size()) != kMetaBlock) {
      return absl::DataLossError("pack: the table's meta block differs");
    }
    const TableBytes read = [this](uint64_t offset, uint64_t size) -> absl::StatusOr<SharedBytes> {
      if (offset > table_bytes_ || size > table_bytes_ - offset) {
        return absl::DataLossError("pack: the table ends early");
      }
      return pack_.ReadAt(offset, size);
    };
    SINTER_ASSIGN_OR_RETURN(const TableMap map, TableMap::Read(read, table_bytes_, KeyOrder::kBytes,
                                                               manifest.rest_bytes));
    return CompareWith(map);
  }

 private:
  absl::Status CompareWith(const TableMap& map) const {
    const std::vector<PackEntry>& entries = pack_.manifest_.entries;
    if (map.blocks().size() != entries.size()) {
      return absl::DataLossError(absl::StrCat("pack: the table has ", map.blocks().size(),
                                              " blocks, the manifest ", entries.size()));
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      const TableMap::Block& block = map.blocks()[i];
      const std::string key = TableUserKey(entries[i].kind, entries[i].digest);
      const bool above = i > 0 && map.blocks()[i - 1].last >= key;
      if (above || block.last < key) {
        return absl::DataLossError("pack: the table's keys differ from the manifest's");
      }
      if (block.span.size + kBlockTrailerSize != entries[i].bytes) {
        return absl::DataLossError("pack: the table's blocks differ from the manifest's");
      }
    }
    return absl::OkStatus();
  }

  const PackReader& pack_;
  const uint64_t table_bytes_;
};

namespace {

constexpr size_t kMaxFindings = 100;

void Note(PackFindings* out, absl::string_view finding) {
  ++out->unsound;
  if (out->findings.size() < kMaxFindings) out->findings.emplace_back(finding);
}

}  // namespace

PackFindings VerifyPack(const PackReader& pack, const RecordCheck& check) {
  PackFindings out;
  try {
    const PackVerifier verifier(pack);
    for (const PackEntry& entry : pack.manifest().entries) {
      const absl::Status status = verifier.CheckRecord(entry, check);
      if (!status.ok()) {
        Note(&out, absl::StrCat(entry.digest.Hex(), ": ", status.message()));
        continue;
      }
      ++(entry.kind == RecordKind::kKernel ? out.kernels : out.plans);
      if (entry.verified) ++out.verified_kernels;
    }
    const absl::Status index = verifier.CheckIndex();
    if (!index.ok()) Note(&out, index.message());
  } catch (const std::bad_alloc&) {
    Note(&out, "out of memory");
  }
  return out;
}

}  // namespace sinter
