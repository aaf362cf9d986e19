#include "src/base/format.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sinter {
namespace {

// Three significant digits without an exponent; whole numbers without decimals.
std::string ThreeDigits(double value) {
  if (value >= 100 || value == std::floor(value)) return FormatText("%.0f", value);
  return value >= 10 ? FormatText("%.1f", value) : FormatText("%.2f", value);
}

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

std::string SizeText(double bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    unit++;
  }
  return absl::StrCat(ThreeDigits(bytes), kUnits[unit]);
}

std::string AmountText(double amount, const char* unit) {
  constexpr const char* kPrefixes[] = {" ", " k", " M", " G", " T", " P"};
  int prefix = 0;
  while (amount >= 999.5 && prefix < 5) {
    amount /= 1000;
    prefix++;
  }
  return absl::StrCat(ThreeDigits(amount), kPrefixes[prefix], unit);
}

std::string RateText(double per_us, const char* unit) {
  return absl::StrCat(AmountText(per_us * 1e6, unit), "/s");
}

std::string FloatText(double value) {
  const float f = static_cast<float>(value);
  if (std::isfinite(f)) return FormatText("%af", static_cast<double>(f));
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return FormatText("__uint_as_float(0x%08xu)", bits);
}

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
