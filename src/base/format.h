// Text of numbers: absl::StrFormat that survives a lack of memory; amounts for people, three digits
// and a unit; floats of generated code; byte sizes.
#ifndef SINTER_SRC_BASE_FORMAT_H_
#define SINTER_SRC_BASE_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace sinter {

// absl::StrFormat for texts of up to 1,024 characters. Abseil's formatter appends them from a
// destructor, where a failed allocation ends the process; here the room is reserved first.
template <typename... Args>
std::string FormatText(const absl::FormatSpec<Args...>& format, const Args&... args) {
  std::string text;
  text.reserve(1024);
  absl::StrAppendFormat(&text, format, args...);
  return std::string(text);  // a copy, without the reserved room
}

// "1 kernel", "2 kernels", "1 entry", "0 entries".
inline std::string Counted(uint64_t count, absl::string_view noun) {
  if (count == 1) return absl::StrCat("1 ", noun);
  if (noun.back() != 'y') return absl::StrCat(count, " ", noun, "s");
  return absl::StrCat(count, " ", noun.substr(0, noun.size() - 1), "ies");
}

// Sizes, in powers of 1024: "96 B", "48 KiB", "1.5 MiB".
std::string SizeText(double bytes);
// Amounts in powers of 1000: "862 kB", "19.5 MB"; "4.83 GFLOP" with "FLOP".
std::string AmountText(double amount, const char* unit);
// A rate given per microsecond: "4.55 TB/s" for 4.55e6 and "B".
std::string RateText(double per_us, const char* unit);

// An f32 literal of CUDA C++ that reads back exactly; infinities by their bits.
std::string FloatText(double value);
inline const char* BoolText(bool value) { return value ? "true" : "false"; }
// A line for each header.
std::string IncludesText(const std::vector<std::string>& headers);

// Byte sizes as people write them: the one reader of options and environment variables.

// "500000000", "500MB", "2GiB", "64k": decimal digits, then nothing, B, or one of k M G T. That
// letter ends the text or precedes iB (powers of 1024), or precedes B (powers of 1000, as disks are
// sold). Upper or lower case; one blank may stand between. INVALID_ARGUMENT showing the text;
// OUT_OF_RANGE beyond 2^64 - 1.
absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text);

// Printable: text from outside as it may reach a terminal or a log.

// One line: line ends and tabs become blanks; control characters (C0, DEL, C1), those that turn the
// direction of text, and bytes that are no UTF-8 become \x1b, \u202e and the like. A log cannot be
// forged by it, nor a terminal steered. Printable text is returned as it is.
std::string Printable(absl::string_view text);
bool IsPrintable(absl::string_view text);  // Printable(text) == text, mostly without a copy
// Printable as a string of JSON, with its quotes.
std::string JsonString(absl::string_view text);
// The same for text of several lines: '\n' and '\t' stay.
std::string PrintableLines(absl::string_view text);

// Bytes of the UTF-8 sequence that begins at text[at]; 0 when there is none. Overlong forms,
// surrogates and values above U+10FFFF do not count as sequences.
size_t Utf8Length(absl::string_view text, size_t at);

// Did-you-mean: the known word nearest to one that is not known.

// Edits (insert, delete, replace, swap neighbours) that turn `a` into `b`.
int EditDistance(absl::string_view a, absl::string_view b);
// The nearest of `known`; "" when none is near enough to be meant, or `word` is longer than any
// known word can be (64 characters).
std::string Nearest(absl::string_view word, const std::vector<std::string>& known);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FORMAT_H_
