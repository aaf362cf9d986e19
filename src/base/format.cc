#include "src/base/format.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

// Three significant digits without an exponent; whole numbers without decimals.
std::string ThreeDigits(double value) {
  if (value >= 100 || value == std::floor(value)) return FormatText("%.0f", value);
  return value >= 10 ? FormatText("%.1f", value) : FormatText("%.2f", value);
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

}  // namespace sinter
