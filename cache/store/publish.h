// Atomic publishing: a file appears under its name whole, or not at all.
#ifndef SINTER_CACHE_STORE_PUBLISH_H_
#define SINTER_CACHE_STORE_PUBLISH_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/directory.h"

namespace sinter {

enum class PublishMode {
  kNew,      // ALREADY_EXISTS when the name is taken; the file there is left alone
  kReplace,  // takes the place of whatever has the name
};

// Writes `bytes` to an unnamed file (O_TMPFILE) beside `path` and links it; where the file system
// knows no unnamed files or /proc is absent, and on network file systems, to a file with a random
// name that is linked and removed. Makes the folder. Readers with the old file open keep it. A
// killed writer leaves nothing, or at worst one ".tmp-" name, which the janitor removes. On failure
// nothing is published.
constexpr char kTempPrefix[] = ".tmp-";
absl::Status Publish(const StoreDirectory& dir, const std::string& path, absl::string_view bytes,
                     PublishMode mode, bool sync);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_PUBLISH_H_
