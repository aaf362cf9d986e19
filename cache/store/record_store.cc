#include "cache/store/record_store.h"

#include <chrono>
#include <new>

#include "cache/key/key.h"
#include "cache/record/kernel_record.h"

namespace sinter {
namespace {

int64_t NowUnixSeconds() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

absl::Status RecordStore::Put(RecordKind kind, absl::string_view key, const Digest& digest,
                              absl::string_view payload) {
  try {
    Envelope envelope;
    envelope.kind = kind;
    envelope.verified = kind == RecordKind::kKernel && KernelPayloadVerified(payload);
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
