#include "src/cli/print.h"

#include <cstdio>
#include <sstream>

namespace sinter::cli {
namespace {

// Where further lines of a broken line begin: behind the first gap of two blanks, should that leave
// room, else where its text begins.
size_t IndentOf(const std::string& line, size_t columns) {
  const size_t text = line.find_first_not_of(' ');
  const size_t gap = line.find("  ", text);
  const size_t second = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  if (second != std::string::npos && second < columns / 2) return second;
  constexpr size_t kColumn = 8;  // from here on it is a column itself
  return text < kColumn ? text + 2 : text;
}

std::string Broken(std::string line, size_t columns) {
  if (line.size() <= columns) return line;
  const std::string indent(IndentOf(line, columns), ' ');
  std::string out;
  while (line.size() > columns) {
    const size_t blank = line.rfind(' ', columns);
    if (blank == std::string::npos || blank <= indent.size()) break;  // one long word
    out += line.substr(0, blank) + "\n";
    line = indent + line.substr(blank + 1);
  }
  return out + line;
}

}  // namespace

std::string Wrapped(const std::string& text, size_t columns) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) out += Broken(line, columns) + "\n";
  return out;
}

std::string PrintableAt(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? Printable(at->get<std::string>()) : std::string();
}

void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
}

}  // namespace sinter::cli
