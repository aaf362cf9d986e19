// Bad input of the text form: every case with its exact message.
#include "tests/unit/chain/refused.h"

namespace sinter {
namespace {

TEST(TextForm, RefusesBadInputWithItsMessage) {
  ExpectRefusedLines("lines");
  EXPECT_EQ(ParseProblem(" # only a comment").status().message(), "the line is empty");
}

TEST(TextForm, RefusesLongLinesAndControlCharacters) {
  EXPECT_EQ(ParseProblem(std::string(5000, 'a')).status().message(),
            "line has 5000 bytes, must be at most 4096");
  EXPECT_EQ(ParseProblem("softmax rows=1\nsoftmax rows=2").status().message(),
            "the text has more than one line");
  EXPECT_EQ(ParseProblem(absl::string_view("softmax\0", 8)).status().message(),
            "the line holds a zero byte");
  EXPECT_EQ(ParseProblem("a\x01z softmax rows=1").status().message(),
            "id is a?z, must be 1 to 64 letters, digits, '_', '-' or '.'");
  EXPECT_EQ(ParseProblem(std::string(65, 'a') + " softmax rows=1").status().message(),
            "id is aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..., must be 1 to 64 letters, digits, "
            "'_', '-' or '.'");
}

TEST(TextForm, RefusesLongLists) {
  std::string line = "products m=8 k=8 n=8";
  for (int i = 0; i < 64; ++i) line += ",8";
  EXPECT_EQ(ParseProblem(line).status().message(),
            "products: n has 65 items, must have at most 64");
}

TEST(TextForm, NamesTheLineOfAnError) {
  EXPECT_EQ(ParseProblems("# list\nA softmax rows=1 cols=2\nB softmax rows=1\n").status().message(),
            "line 3: softmax: key cols is missing");
  EXPECT_EQ(ParseProblems("A softmax rows=1 cols=2\n\nA silu rows=1 cols=2").status().message(),
            "line 3: id A is given twice");
}

TEST(TextForm, BoundsTheProblemsOfAList) {
  std::string lines;
  for (int i = 0; i <= 16384; ++i) lines += "silu rows=1 cols=2\n";
  EXPECT_EQ(ParseProblems(lines).status().message(),
            "line 16385: a list has at most 16384 problems");
  std::string widths = "8";
  for (int i = 1; i < 64; ++i) widths += ",8";
  const std::string line = "products m=8 k=8 act=gelu_tanh gated=1 bias=1 n=" + widths + "\n";
  const size_t ops = ParseProblem(line)->chain.ops().size();
  std::string chains;
  for (size_t i = 0; i <= (1 << 20) / ops; ++i) chains += line;
  EXPECT_EQ(ParseProblems(chains).status().message(),
            absl::StrCat("line ", (1 << 20) / ops + 1,
                         ": the problems of a list have together at most 1048576 ops"));
}

}  // namespace
}  // namespace sinter
