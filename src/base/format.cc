#include "src/base/format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "src/base/status.h"

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

// 0 for an unknown unit.
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

std::string IncludesText(const std::vector<std::string>& headers) {
  std::string text;
  for (const std::string& header : headers) absl::StrAppend(&text, "#include \"", header, "\"\n");
  return text;
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
    return Invalid(Quoted(text), " is not a size such as 500000000, 500MB or 2GiB");
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &number) ||
      number > std::numeric_limits<uint64_t>::max() / multiplier) {
    return OutOfRange(Quoted(text), " is more than 2^64 - 1 bytes (16 EiB)");
  }
  return number * multiplier;
}

namespace {

uint32_t ByteAt(absl::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

// Precondition: Utf8Length(text, at) == length, which is not 0.
uint32_t CodePoint(absl::string_view text, size_t at, size_t length) {
  constexpr uint32_t kFirst[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  uint32_t code = ByteAt(text, at) & kFirst[length];
  for (size_t i = 1; i < length; ++i) code = code << 6 | (ByteAt(text, at + i) & 0x3f);
  return code;
}

// Line and paragraph separators, and marks that reorder what a reader sees.
bool Misleads(uint32_t code) {
  return code == 0x61c || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

bool IsControl(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// How many characters from text[at] on are ASCII that is printed as it is: nearly all are.
size_t PlainLength(absl::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && text[end] >= 0x20 && text[end] < 0x7f) ++end;
  return end - at;
}

std::string Escape(absl::string_view text, bool keep_lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t plain = PlainLength(text, at);
    out.append(text.data() + at, plain);
    at += plain;
    if (at == text.size()) break;
    const size_t length = Utf8Length(text, at);
    const uint32_t code = length == 0 ? ByteAt(text, at) : CodePoint(text, at, length);
    const bool blank = code == '\n' || code == '\t' || code == '\r';
    if (blank && !(code == '\r' && keep_lines)) {
      out += keep_lines ? text[at] : ' ';
    } else if (length == 0 || (IsControl(code) && code < 0x80)) {
      out += absl::StrFormat("\\x%02x", code);
    } else if (IsControl(code) || Misleads(code)) {
      out += absl::StrFormat("\\u%04x", code);
    } else {
      out.append(text.data() + at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace

size_t Utf8Length(absl::string_view text, size_t at) {
  const uint32_t first = ByteAt(text, at);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xf0 && first < 0xf5 ? 4
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xc2 && first < 0xe0 ? 2
                                                        : 0;
  if (length == 0 || length > text.size() - at) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((ByteAt(text, at + i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const uint32_t code = CodePoint(text, at, length);
  const bool overlong = code < (length == 3 ? 0x800u : 0x10000u);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return overlong || surrogate || code > 0x10ffff ? 0 : length;
}

std::string Printable(absl::string_view text) { return Escape(text, /*keep_lines=*/false); }
bool IsPrintable(absl::string_view text) {
  return PlainLength(text, 0) == text.size() || Printable(text) == text;
}
std::string PrintableLines(absl::string_view text) { return Escape(text, /*keep_lines=*/true); }

std::string JsonString(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(Printable(text), {{"\\", "\\\\"}, {"\"", "\\\""}}),
                      "\"");
}

namespace {

constexpr size_t kLongestWord = 64;

}  // namespace

int EditDistance(absl::string_view a, absl::string_view b) {
  const size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<std::vector<int>> cost(rows, std::vector<int>(columns));
  for (size_t i = 0; i < rows; ++i) cost[i][0] = static_cast<int>(i);
  for (size_t j = 0; j < columns; ++j) cost[0][j] = static_cast<int>(j);
  for (size_t i = 1; i < rows; ++i) {
    for (size_t j = 1; j < columns; ++j) {
      const int same = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + same});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[rows - 1][columns - 1];
}

std::string Nearest(absl::string_view word, const std::vector<std::string>& known) {
  std::string best;
  if (word.size() > kLongestWord) return best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& candidate : known) {
    const int distance = EditDistance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace sinter
