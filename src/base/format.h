// FormatText: absl::StrFormat where memory may be out.
#ifndef SINTER_SRC_BASE_FORMAT_H_
#define SINTER_SRC_BASE_FORMAT_H_

#include <string>

#include "absl/strings/str_format.h"

namespace sinter {

// Abseil's formatter appends the last 1,024 characters from a destructor, where a failed allocation
// ends the process. Here their room is made before. For texts of up to so many characters.
template <typename... Args>
std::string FormatText(const absl::FormatSpec<Args...>& format, const Args&... args) {
  std::string text;
  text.reserve(1024);
  absl::StrAppendFormat(&text, format, args...);
  return std::string(text);  // without the room
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FORMAT_H_
