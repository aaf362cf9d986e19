// Tuning sets as files: read once when a context is made, written once when a tuning is done.
#ifndef SINTER_SRC_ENGINE_TUNING_FILE_H_
#define SINTER_SRC_ENGINE_TUNING_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/engine/tuning_set.h"

namespace sinter {

constexpr uint64_t kMaxTuningFile = uint64_t{64} << 20;  // bytes

// INVALID_ARGUMENT with the path and the reason when the file is missing, unreadable, no regular
// file, owned by another user than we or root, writable by group or others, above kMaxTuningFile,
// damaged, or of another format: whoever names a set wants that set.
absl::StatusOr<TuningSet> ReadTuningFile(const std::string& path);

// A new file beside `path`, then renamed over it: a reader sees the old set or the new one.
// INVALID_ARGUMENT with the path and the reason.
absl::Status WriteTuningFile(const TuningSet& set, const std::string& path);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNING_FILE_H_
