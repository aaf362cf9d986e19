#include "src/base/byte_size.h"

#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sinter {
namespace {

constexpr size_t kShownBytes = 64;  // of a bad text

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", text.substr(0, kShownBytes), "\"");
}

// 0 for a unit that is none.
uint64_t Multiplier(absl::string_view unit) {
  const std::string lower = absl::AsciiStrToLower(unit);
  if (lower.empty() || lower == "b") return 1;
  const size_t power = absl::string_view("kmgt").find(lower[0]);
  const std::string rest = lower.substr(1);
  if (power == absl::string_view::npos || (rest != "" && rest != "b" && rest != "ib")) return 0;
  uint64_t result = 1;
  for (size_t i = 0; i <= power; ++i) result *= rest == "b" ? 1000 : 1024;
  return result;
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) {
    ++digits;
  }
  absl::string_view unit = text.substr(digits);
  absl::ConsumePrefix(&unit, " ");
  const uint64_t multiplier = Multiplier(unit);
  if (digits == 0 || multiplier == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is no size such as 500000000, 500MB or 2GiB"));
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number) ||
      number > std::numeric_limits<uint64_t>::max() / multiplier) {
    return absl::OutOfRangeError(
        absl::StrCat(Quoted(text), " is more than 2^64 - 1 bytes (16 EiB)"));
  }
  return number * multiplier;
}

}  // namespace sinter
