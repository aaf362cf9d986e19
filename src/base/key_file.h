// Key files: secrets, public keys and what else must be trusted come from files whose access is
// checked, as ssh does.
#ifndef SINTER_SRC_BASE_KEY_FILE_H_
#define SINTER_SRC_BASE_KEY_FILE_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

enum class KeyFileKind {
  kSecret,  // others may neither read nor write it, the group may not write it
  kPublic,  // neither group nor others may write it
};

// OK when an open file is owned by us or root and neither group nor others may write it, so that
// its content can be trusted. PERMISSION_DENIED with the reason, without the path.
absl::Status CheckTrustedFile(const struct stat& info);

// The whole file, at most 64 KiB. Its owner must be we or root. PERMISSION_DENIED, NOT_FOUND,
// INVALID_ARGUMENT (empty or too large), UNAVAILABLE; the message names the path, never the
// content, and calls it `what`.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path, KeyFileKind kind,
                                        absl::string_view what = "key file");

}  // namespace sinter

#endif  // SINTER_SRC_BASE_KEY_FILE_H_
