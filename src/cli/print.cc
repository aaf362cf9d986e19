#include "src/cli/print.h"

#include <cstdio>

#include "src/cli/handles.h"

namespace sinter::cli {

std::string Printable(const std::string& text) {
  std::string out;
  const Outcome made = AbiText(&out, [&](sinter_x_text** printable, sinter_error** error) {
    return sinter_x_printable(text.c_str(), 0, printable, error);
  });
  return made.ok() ? out : std::string();
}

std::string PrintableAt(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? Printable(at->get<std::string>()) : std::string();
}

void PrintJson(const Json& json) {
  std::printf("%s\n", json.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
}

}  // namespace sinter::cli
