// Fuzz target over everything that reads cache bytes. The first byte picks the reader: 0 keys, 1
// envelope and kernel record, 2 table.
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter::cache_record_fuzz {
namespace {

void ReadKeys(absl::string_view bytes) {
  const auto plan = sinter::DecodePlanKey(bytes);
  if (plan.ok()) Require(sinter::EncodeKey(*plan) == bytes);
  const auto kernel = sinter::DecodeKernelKey(bytes);
  if (kernel.ok()) Require(sinter::EncodeKey(*kernel) == bytes);
}

void ReadEnvelopes(absl::string_view bytes) {
  const sinter::EnvelopeVerdict verdict = sinter::ReadEnvelope(bytes);
  if (verdict.ok) Require(sinter::EncodeEnvelope(verdict.envelope) == bytes);
}

// With the hash that its body has, which no mutation finds.
std::string Sealed(absl::string_view bytes) {
  constexpr size_t kHashAt = 12, kBodyAt = 44;
  std::string sealed(bytes);
  if (sealed.size() < kBodyAt) return sealed;
  const sinter::Digest hash = sinter::Sha256(bytes.substr(kBodyAt));
  return sealed.replace(kHashAt, kBodyAt - kHashAt, hash.View().data(), hash.View().size());
}

void ReadRecords(absl::string_view bytes) {
  ReadEnvelopes(bytes);
  ReadEnvelopes(Sealed(bytes));
  (void)sinter::KernelPayloadVerified(bytes);
  (void)sinter::DecodeKernelRecord(bytes);
}

void ReadTables(absl::string_view bytes) {
  const auto entry = sinter::ReadTable(bytes);
  if (entry.ok()) {
    const std::string again = sinter::cache_testing::BuildTable(entry->user_key, entry->value);
    const auto read = sinter::ReadTable(again);
    Require(read.ok() && read->user_key == entry->user_key && read->value == entry->value);
  }
  (void)sinter::VerifyRecordFile(bytes, sinter::RecordKind::kKernel, sinter::Digest(), "key");
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (ReaderOf(data[0], 3)) {
    case 0:
      ReadKeys(bytes);
      break;
    case 1:
      ReadRecords(bytes);
      break;
    default:
      ReadTables(bytes);
  }
  return 0;
}

}  // namespace sinter::cache_record_fuzz
