#include "runtime/nvrtc/compile_log.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sinter {
namespace {

// The number that stands right before `phrase`, 0 when there is none.
int NumberBefore(absl::string_view line, absl::string_view phrase) {
  const size_t end = line.find(phrase);
  if (end == absl::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(line[begin - 1])) --begin;
  int value = 0;
  return absl::SimpleAtoi(line.substr(begin, end - begin), &value) ? value : 0;
}

bool HasWgmmaRemark(absl::string_view line) {
  for (size_t at = line.find("C75"); at != absl::string_view::npos; at = line.find("C75", at + 1)) {
    const bool starts = at == 0 || !absl::ascii_isalnum(line[at - 1]);
    const bool two_digits = at + 5 <= line.size() && absl::ascii_isdigit(line[at + 3]) &&
                            absl::ascii_isdigit(line[at + 4]);
    const bool ends = at + 5 == line.size() || (two_digits && !absl::ascii_isalnum(line[at + 5]));
    if (starts && two_digits && ends) return true;
  }
  return false;
}

}  // namespace

CompileLogFacts ReadCompileLog(absl::string_view log) {
  CompileLogFacts facts;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    facts.registers = std::max(facts.registers, NumberBefore(line, " registers"));
    facts.spill_store_bytes += NumberBefore(line, " bytes spill stores");
    facts.spill_load_bytes += NumberBefore(line, " bytes spill loads");
    if (facts.remark.empty() && HasWgmmaRemark(line)) {
      facts.remark = std::string(absl::StripAsciiWhitespace(line));
    }
    if (facts.error.empty() && line.find("error") != absl::string_view::npos) {
      facts.error = std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return facts;
}

}  // namespace sinter
