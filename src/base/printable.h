// Printable: text from outside as it may reach a terminal or a log.
#ifndef SINTER_SRC_BASE_PRINTABLE_H_
#define SINTER_SRC_BASE_PRINTABLE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sinter {

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
// surrogates and what lies above U+10FFFF are none.
size_t Utf8Length(absl::string_view text, size_t at);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_PRINTABLE_H_
