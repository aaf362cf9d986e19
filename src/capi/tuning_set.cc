// sinter_tuning_set: a growing set of measured choices behind a lock.
#include <cstring>

#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/tuning_file.h"

namespace capi = sinter::capi;

namespace sinter::capi {
namespace {

TuningSet Copy(const sinter_tuning_set& set) {
  std::lock_guard<std::mutex> lock(set.mutex);
  return set.set;
}

absl::Status CheckPath(const char* path) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(path, "path"));
  return *path != '\0' ? absl::OkStatus() : absl::InvalidArgumentError("path is empty");
}

}  // namespace
}  // namespace sinter::capi

extern "C" {

sinter_status sinter_tuning_set_create(sinter_tuning_set** out_set, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_set, "out_set"));
    *out_set = new sinter_tuning_set();
    return absl::OkStatus();
  });
}

void sinter_tuning_set_retain(const sinter_tuning_set* set) { capi::RetainHandle(set); }
void sinter_tuning_set_release(const sinter_tuning_set* set) { capi::ReleaseHandle(set); }

sinter_status sinter_tuning_set_add_file(sinter_tuning_set* set, const char* path,
                                         sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    SINTER_RETURN_IF_ERROR(capi::CheckPath(path));
    SINTER_ASSIGN_OR_RETURN(const sinter::TuningSet other, sinter::ReadTuningFile(path));
    std::lock_guard<std::mutex> lock(set->mutex);
    set->set.Merge(other);
    return absl::OkStatus();
  });
}

sinter_status sinter_tuning_set_write(const sinter_tuning_set* set, const char* path,
                                      sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    SINTER_RETURN_IF_ERROR(capi::CheckPath(path));
    return sinter::WriteTuningFile(capi::Copy(*set), path);
  });
}

uint64_t sinter_tuning_set_get_count(const sinter_tuning_set* set) {
  if (!capi::IsLive(set)) return 0;
  std::lock_guard<std::mutex> lock(set->mutex);
  return set->set.entries().size();
}

sinter_status sinter_tuning_set_get_digest(const sinter_tuning_set* set, uint8_t out_digest[32],
                                           sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(set, "set"));
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_digest, "out_digest"));
    const sinter::Digest digest = capi::Copy(*set).SetDigest();
    std::memcpy(out_digest, digest.bytes.data(), digest.bytes.size());
    return absl::OkStatus();
  });
}

}  // extern "C"
