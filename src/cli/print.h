// What the command prints that came from outside: files, records, servers, the command line.
#ifndef SINTER_SRC_CLI_PRINT_H_
#define SINTER_SRC_CLI_PRINT_H_

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "src/base/format.h"
#include "src/base/nearest.h"
#include "src/base/printable.h"

namespace sinter::cli {

using Json = nlohmann::ordered_json;

// Member `key`, a string, as a terminal may show it; "" without one.
std::string PrintableAt(const Json& json, const char* key);
// Lines of more than `columns` broken at blanks. What follows is indented as the first line's text,
// or where it has two columns, as its second.
std::string Wrapped(const std::string& text, size_t columns);
constexpr size_t kHelpColumns = 100, kMostColumns = 120;
// One document on standard output, in ASCII: JSON's own escapes stand for everything else.
void PrintJson(const Json& json);

// "; did you mean \"run\"?" or "".
inline std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?";
}
inline std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  return absl::StrJoin(words, separator);
}

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_PRINT_H_
