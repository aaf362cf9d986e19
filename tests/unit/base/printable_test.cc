#include "src/base/format.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using namespace std::string_literals;

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "a b", "M <= 128 \\ \"q\"", "µs, 数据, \xf0\x9f\x99\x82", "~"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableLines(text), text);
  }
}

TEST(Printable, IsOneLineThatSteersNoTerminal) {
  const std::pair<std::string, std::string> kRows[] = {
      {"a\nb\r\tc", "a b  c"},
      {"\x1b[2J\x07", "\\x1b[2J\\x07"},
      {"a\0b"s, "a\\x00b"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},  // CSI as one character
      {"\xe2\x80\xae"
       "gpj",
       "\\u202egpj"},  // right to left
      {"\xe2\x80\xa8", "\\u2028"},
      {"\xff\xc2", "\\xff\\xc2"},  // no UTF-8, and a sequence that is cut
      {"\xc0\x9b", "\\xc0\\x9b"},  // overlong
      {"\xe0\x80\x9b", "\\xe0\\x80\\x9b"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"}};  // surrogate
  for (const auto& [text, expected] : kRows) EXPECT_EQ(Printable(text), expected);
}

TEST(Printable, LinesKeepTheirEnds) {
  EXPECT_EQ(PrintableLines("a\n\tb\r\n\x1b[0m"), "a\n\tb\\x0d\n\\x1b[0m");
}

// Whatever the bytes: nothing below 0x20 but what was asked for, no DEL, and printing again changes
// nothing.
TEST(Printable, EveryPairOfBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const std::string once = Printable(text);
      for (const char c : once) {
        ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << a << " " << b;
      }
      ASSERT_EQ(Printable(once), once);
    }
  }
}

}  // namespace
}  // namespace sinter
