// What the command prints that came from outside: files, records, servers, the command line.
#ifndef SINTER_SRC_CLI_PRINT_H_
#define SINTER_SRC_CLI_PRINT_H_

#include <string>

#include "nlohmann/json.hpp"
#include "src/base/format.h"
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

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_PRINT_H_
