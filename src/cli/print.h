// What the command prints that came from outside: files, records, servers, the command line.
#ifndef SINTER_SRC_CLI_PRINT_H_
#define SINTER_SRC_CLI_PRINT_H_

#include <string>

#include "nlohmann/json.hpp"

namespace sinter::cli {

using Json = nlohmann::ordered_json;

// One line that steers no terminal (sinter_x_printable).
std::string Printable(const std::string& text);
// Member `key`, a string, as a terminal may show it; "" without one.
std::string PrintableAt(const Json& json, const char* key);
// One document on standard output, in ASCII: JSON's own escapes stand for everything else.
void PrintJson(const Json& json);

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_PRINT_H_
