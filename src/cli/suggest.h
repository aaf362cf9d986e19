// Did-you-mean.
#ifndef SINTER_SRC_CLI_SUGGEST_H_
#define SINTER_SRC_CLI_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "src/base/nearest.h"

namespace sinter::cli {

// "; did you mean \"run\"?" or "".
inline std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}
inline std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  return absl::StrJoin(words, separator);
}

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_SUGGEST_H_
