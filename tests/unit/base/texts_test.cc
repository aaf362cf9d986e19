// Texts: sizes, printable bytes, the nearest name, lines of the log.
#include "src/base/format.h"
#include "src/base/log.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(ByteSize, UnitsOf1024AndOf1000) {
  const std::pair<const char*, uint64_t> kRows[] = {{"0", 0},
                                                    {"500000000", 500000000},
                                                    {"7B", 7},
                                                    {"64k", 64 << 10},
                                                    {"64KiB", 64 << 10},
                                                    {"64kB", 64000},
                                                    {"3M", 3 << 20},
                                                    {"3mib", 3 << 20},
                                                    {"500MB", 500000000},
                                                    {"2 GiB", uint64_t{2} << 30},
                                                    {"2G", uint64_t{2} << 30},
                                                    {"2GB", 2000000000},
                                                    {"1T", uint64_t{1} << 40},
                                                    {"18446744073709551615", UINT64_MAX},
                                                    {"16777215T", uint64_t{16777215} << 40}};
  for (const auto& [text, bytes] : kRows) {
    EXPECT_EQ(Got(ParseByteSize(text), text), bytes) << text;
  }
}

TEST(ByteSize, AnythingElseIsRefused) {
  for (const char* text : {"", " ", "B", "GiB", "-1", "+1", "1.5G", "1e9", "0x10", " 1", "1  G",
                           "1G ", "1X", "1KBs", "1iB", "1 0", "1G2"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"18446744073709551616", "16777216T", "99999999999999999999999"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(), absl::StatusCode::kOutOfRange) << text;
  }
  EXPECT_THAT(std::string(ParseByteSize(std::string(1000, 'x')).status().message()),
              ::testing::SizeIs(::testing::Lt(200)));
}

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

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(EditDistance("run", "run"), 0);
  EXPECT_EQ(EditDistance("rnu", "run"), 1);  // neighbours swapped
  EXPECT_EQ(EditDistance("", "run"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Nearest, IsNearOrNothing) {
  EXPECT_EQ(Nearest("gem_chain", {"gated_ffn", "gemm_chain"}), "gemm_chain");
  EXPECT_EQ(Nearest("zebra", {"gated_ffn", "gemm_chain"}), "");
  EXPECT_EQ(Nearest(std::string(100000, 'x'), {"gemm_chain"}), "");
}

TEST(LogSink, WithoutACallbackNothingIsEnabled) {
  const LogSink sink;
  EXPECT_FALSE(sink.Enabled(LogLevel::kError));
  sink.Log(LogLevel::kError, "dropped");
}

TEST(LogSink, PassesOnWhatItsLevelAllows) {
  std::vector<std::string> seen;
  const LogSink sink(LogLevel::kInfo,
                     [&seen](LogLevel, absl::string_view message) { seen.emplace_back(message); });
  sink.Log(LogLevel::kError, "e");
  sink.Log(LogLevel::kInfo, "i");
  sink.Log(LogLevel::kDebug, "d");
  EXPECT_THAT(seen, ElementsAre("e", "i"));
}

}  // namespace
}  // namespace sinter
