// ReplaceFile: a text that takes the place of a file at once.
#ifndef SINTER_SRC_BASE_REPLACE_FILE_H_
#define SINTER_SRC_BASE_REPLACE_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// Writes a new file of `mode` beside `path`, which then takes its name: a reader sees the old text
// or the new. UNAVAILABLE with the call and the path.
absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode);

// `path` with the process in the place of each "%p".
std::string PathOfProcess(absl::string_view path);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REPLACE_FILE_H_
