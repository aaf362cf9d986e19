// Walks the local tier's folder for people: what is there, and is it sound. Changes nothing.
#ifndef SINTER_CACHE_STORE_INSPECT_H_
#define SINTER_CACHE_STORE_INSPECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sinter {

struct LocalReport {
  uint64_t plans = 0, kernels = 0;    // sound records
  uint64_t verified_kernels = 0;      // of these, checked on a device
  uint64_t other_format = 0;          // records of another version of the library
  uint64_t bytes = 0;                 // of all record files
  uint64_t unsound = 0;               // files that a lookup would refuse
  uint64_t quarantined = 0;           // keys with a tombstone
  uint64_t temporary = 0;             // left by killed writers
  std::vector<std::string> findings;  // "path: cause" of unsound files and tombstones, at most 100
};

// UNAVAILABLE or PERMISSION_DENIED when the folder cannot be used. Makes the folder if it is
// missing. Reads every file.
absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_INSPECT_H_
