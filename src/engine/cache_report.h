// CacheReport: what the local tier holds, for people. The engine's door to it: rooms above do not
// include cache/.
#ifndef SINTER_SRC_ENGINE_CACHE_REPORT_H_
#define SINTER_SRC_ENGINE_CACHE_REPORT_H_

#include "absl/status/statusor.h"
#include "cache/store/inspect.h"
#include "src/base/config.h"

namespace sinter {

using CacheReport = LocalReport;

// Reads and checks every record of the configured local tier; changes nothing. UNAVAILABLE when
// there is none. Blocks; thread-safe.
inline absl::StatusOr<CacheReport> InspectCache(const Config& config) {
  if (!config.cache_enabled || config.cache_dir.empty()) {
    return absl::UnavailableError("there is no local cache: it is turned off or has no folder");
  }
  return InspectLocalStore(config.cache_dir);
}

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_CACHE_REPORT_H_
