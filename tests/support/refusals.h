// Refusals as data: files of inputs, each with the message that refuses it on the next lines.
//
//   # a comment
//   [section]
//   an input, from the first column on
//     its message, indented
#pragma once

#include "tests/support/test.h"

namespace sinter {

struct RefusedInput {
  std::string input, message;
};

// Reads a section of a file in the repository. It joins messages of several lines by a space.
inline std::vector<RefusedInput> RefusalsOf(const std::string& path, const std::string& section) {
  std::ifstream file(path);
  std::vector<RefusedInput> refusals;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "#") || line.empty()) continue;
    if (absl::StartsWith(line, "[")) {
      inside = line == "[" + section + "]";
    } else if (inside && absl::StartsWith(line, "  ")) {
      std::string& message = refusals.back().message;
      absl::StrAppend(&message, message.empty() ? "" : " ", line.substr(2));
    } else if (inside) {
      refusals.push_back({line, ""});
    }
  }
  if (refusals.empty()) throw std::runtime_error(path + " has no section " + section);
  return refusals;
}

}  // namespace sinter
