#include "cache/store/record_store.h"

#include <chrono>
#include <new>

#include "absl/strings/str_cat.h"
#include "cache/key/key.h"
#include "cache/record/kernel_record.h"
#include "src/base/status.h"

namespace sinter {
namespace {

int64_t NowUnixSeconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::Status CheckRecordSize(uint64_t bytes) {
  if (bytes <= kMaxRecordFileBytes) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("put: ", bytes, " bytes, at most ", kMaxRecordFileBytes));
}

absl::Status RecordStore::Put(RecordKind kind, absl::string_view key, const Digest& digest,
                              absl::string_view payload) {
  try {
    SINTER_RETURN_IF_ERROR(CheckRecordSize(key.size() + payload.size()));
    Envelope envelope;
    envelope.kind = kind;
    envelope.verified = kind == RecordKind::kKernel && KernelPayloadVerified(payload, format_);
    envelope.created_unix_s = NowUnixSeconds();
    envelope.producer = producer_;
    envelope.arch = ArchOfKey(key);
    envelope.key = key;
    envelope.payload = payload;
    return PutRecord(digest, envelope);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("put: out of memory");
  }
}

}  // namespace sinter
