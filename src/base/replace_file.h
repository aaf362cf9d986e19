// ReplaceFile: a text that takes the place of a file at once.
#ifndef SINTER_SRC_BASE_REPLACE_FILE_H_
#define SINTER_SRC_BASE_REPLACE_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Returns the name that a new file may take: `path`, or where that is a link, the file behind it.
// INVALID_ARGUMENT where a folder, device or pipe has the name.
absl::StatusOr<std::string> ReplaceablePath(const std::string& path);

// Writes a new file of `mode` beside `path`, which then takes its name: a reader sees the old text
// or the new. A link stays, and a device or a pipe is written into. UNAVAILABLE with the call and
// the path.
absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode);

// `path` with the process in the place of each "%p".
std::string PathOfProcess(absl::string_view path);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REPLACE_FILE_H_
