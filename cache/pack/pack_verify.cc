#include "cache/pack/pack_verify.h"

#include <leveldb/env.h>
#include <leveldb/iterator.h>
#include <leveldb/options.h>
#include <leveldb/table.h>

#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

std::string Varint(uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
  return out;
}

}  // namespace

// The table part of a pack as LevelDB reads it. The friend of PackReader that this file is.
class PackVerifier : public leveldb::RandomAccessFile {
 public:
  explicit PackVerifier(const PackReader& pack)
      : pack_(pack), table_bytes_(pack.manifest_.BlockBytes() + pack.manifest_.rest_bytes) {}

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    if (offset > table_bytes_ || n > table_bytes_ - offset) {
      return leveldb::Status::Corruption("read past the end");
    }
    const auto bytes = pack_.ReadAt(offset, n);
    if (!bytes.ok()) return leveldb::Status::IOError(std::string(bytes.status().message()));
    std::memcpy(scratch, bytes->data(), n);
    *result = leveldb::Slice(scratch, n);
    return leveldb::Status::OK();
  }

  // What follows the blocks is what the manifest says, and names nothing outside the table.
  absl::Status CheckRest() const {
    const PackManifest& manifest = pack_.manifest_;
    SINTER_ASSIGN_OR_RETURN(const SharedBytes rest,
                            pack_.ReadAt(manifest.BlockBytes(), manifest.rest_bytes));
    if (Sha256(rest) != manifest.rest) {
      return absl::DataLossError("pack: the table's index differs from the manifest");
    }
    if (rest.size() < kTableFooterBytes) return absl::DataLossError("pack: no table footer");
    // LevelDB does not read the meta block of a table without filters. It is always the same, and
    // the footer's first handle names it.
    const absl::string_view meta("\0\0\0\0\1\0\0\0\0\xc0\xf2\xa1\xb0", 13);
    if (rest.view().substr(0, meta.size()) != meta) {
      return absl::DataLossError("pack: the table's meta block differs");
    }
    const absl::string_view footer = rest.view().substr(rest.size() - kTableFooterBytes);
    const std::string handle = Varint(manifest.BlockBytes()) + Varint(8);
    if (footer.substr(0, handle.size()) != handle) {
      return absl::DataLossError("pack: the table's footer names another meta block");
    }
    return CheckTableFooter(footer, table_bytes_);
  }

  // LevelDB finds exactly the manifest's entries, in its order, checksums included.
  absl::Status CheckTable() {
    leveldb::Options options;
    options.paranoid_checks = true;
    leveldb::Table* raw = nullptr;
    const leveldb::Status opened = leveldb::Table::Open(options, this, table_bytes_, &raw);
    const std::unique_ptr<leveldb::Table> table(raw);
    if (!opened.ok()) return absl::DataLossError(absl::StrCat("pack: ", opened.ToString()));
    leveldb::ReadOptions read;
    read.verify_checksums = true;
    read.fill_cache = false;
    const std::unique_ptr<leveldb::Iterator> it(table->NewIterator(read));
    it->SeekToFirst();
    for (const PackEntry& entry : pack_.manifest_.entries) {
      if (!it->status().ok()) return absl::DataLossError(it->status().ToString());
      const std::string key = TableUserKey(entry.kind, entry.digest);
      if (!it->Valid() || it->key() != leveldb::Slice(key)) {
        return absl::DataLossError("pack: the table's keys differ from the manifest's");
      }
      it->Next();
    }
    if (!it->status().ok()) return absl::DataLossError(it->status().ToString());
    return it->Valid() ? absl::DataLossError("pack: the table holds more than the manifest")
                       : absl::OkStatus();
  }

 private:
  const PackReader& pack_;
  const uint64_t table_bytes_;
};

namespace {

constexpr size_t kMaxFindings = 100;

void Note(PackFindings* out, absl::string_view finding) {
  ++out->unsound;
  if (out->findings.size() < kMaxFindings) out->findings.emplace_back(finding);
}

// OK when a look-up with the record's own key would be served, and the manifest says the truth.
absl::Status CheckRecord(const PackReader& pack, const PackEntry& entry) {
  SINTER_ASSIGN_OR_RETURN(const SharedBytes bytes,
                          pack.ReadEnvelopeBytes(entry.kind, entry.digest));
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
  return absl::OkStatus();
}

}  // namespace

PackFindings VerifyPack(const PackReader& pack) {
  PackFindings out;
  try {
    for (const PackEntry& entry : pack.manifest().entries) {
      const absl::Status status = CheckRecord(pack, entry);
      if (!status.ok()) {
        Note(&out, absl::StrCat(entry.digest.Hex(), ": ", status.message()));
        continue;
      }
      ++(entry.kind == RecordKind::kKernel ? out.kernels : out.plans);
      if (entry.verified) ++out.verified_kernels;
    }
    PackVerifier verifier(pack);
    absl::Status table = verifier.CheckRest();
    // LevelDB sees only bytes that the manifest vouches for.
    if (table.ok() && out.ok()) table = verifier.CheckTable();
    if (!table.ok()) Note(&out, table.message());
  } catch (const std::bad_alloc&) {
    Note(&out, "out of memory");
  }
  return out;
}

}  // namespace sinter
