// Keys of cached records: structs of plain fields, and the one function that turns each into
// canonical bytes.
//
// Records with equal key bytes are interchangeable. Everything that can change a record is a field;
// paths, times, names and compiler output are not. Strings are opaque here. Thread-compatible
// values; making one cannot fail.
#ifndef SINTER_CACHE_KEY_KEY_H_
#define SINTER_CACHE_KEY_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/fields.h"

namespace sinter {

// Layout of the key bytes themselves. Raise it when a field is added, removed or reordered.
constexpr uint32_t kKeyVersion = 2;

struct PlanKey {
  uint32_t format_version = 0;  // of the plan record's payload
  std::string chain;            // canonical chain bytes
  int64_t bucket = 0;           // BucketOf(m)
  Digest device_model;          // DeviceModel::ModelDigest()
  std::string library_version;
  uint32_t search_version = 0;
  uint64_t flags = 0;  // what the planner may not use, and the like
  Digest tuning_set;   // all zero: none
  SINTER_FIELDS(PlanKey, format_version, chain, bucket, device_model, library_version,
                search_version, flags, tuning_set);
};

struct KernelKey {
  uint32_t format_version = 0;  // of the kernel record's payload
  std::string code;       // the compiled code, M symbolic; without buffers, offsets, rows or grid
  std::string schedule;   // schedule bytes
  Digest device_headers;  // of the device headers that the source reaches
  std::string arch;       // exact: "sm_90a" is not "sm_90"
  std::vector<std::string> options;  // compile options, in order
  std::string toolchain_id;          // Compiler::ToolchainId()
  Digest source;                     // of the generated source
};

std::string EncodeKey(const PlanKey& key);
std::string EncodeKey(const KernelKey& key);

// DATA_LOSS unless `bytes` is exactly what EncodeKey makes for this version. `bytes` is untrusted.
absl::StatusOr<PlanKey> DecodePlanKey(absl::string_view bytes);
absl::StatusOr<KernelKey> DecodeKernelKey(absl::string_view bytes);

// The arch field of kernel key bytes; "" for anything else.
std::string ArchOfKey(absl::string_view key_bytes);

}  // namespace sinter

#endif  // SINTER_CACHE_KEY_KEY_H_
