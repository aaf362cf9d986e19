#include "src/base/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace sinter {
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

}  // namespace sinter
