#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/compile_request.h"

namespace sinter {
namespace {

using ::testing::ElementsAre;

HeaderMap Library() {
  return {{"a.cuh", "  #  include \"b.cuh\"\n#include <c.cuh>\n"},
          {"b.cuh", "#include \"a.cuh\"\nint b;\n"},
          {"c.cuh", "int c;\n// #include \"d.cuh\"\n"},
          {"d.cuh", "int d;"}};
}

std::vector<std::string> NamesOf(const HeaderMap& headers) {
  std::vector<std::string> names;
  for (const auto& header : headers) names.emplace_back(header.first);
  return names;
}

TEST(ReachedHeaders, GoThroughHeadersAndRoundCycles) {
  EXPECT_THAT(NamesOf(ReachedHeaders("#include \"b.cuh\"\n", Library())),
              ElementsAre("a.cuh", "b.cuh"));
  EXPECT_THAT(NamesOf(ReachedHeaders("int x;\n#include \"c.cuh\"\n#include \"d.cuh\"", Library())),
              ElementsAre("c.cuh", "d.cuh"));
  EXPECT_THAT(NamesOf(ReachedHeaders("#include \"d.cuh\"\n#include \"e.cuh\"\n", Library())),
              ElementsAre("d.cuh"));
}

TEST(ReachedHeaders, OddLinesReachNothing) {
  for (const char* source : {"", "#include", "#include \"", "#include \"d.cuh", "#include <d.cuh>",
                             "include \"d.cuh\"", "#\n", "#include \"\"\n"}) {
    EXPECT_TRUE(ReachedHeaders(source, Library()).empty()) << source;
  }
}

TEST(HeaderDigests, CoverNamesAndBytesOfWhatIsReachedAlone) {
  const HeaderDigests before(Library());
  HeaderMap changed = Library();
  changed["b.cuh"] = "#include \"a.cuh\"\nint b2;\n";
  const HeaderDigests after(changed);
  EXPECT_NE(after.Of("a.cuh"), before.Of("a.cuh"));
  EXPECT_NE(after.Of("b.cuh"), before.Of("b.cuh"));
  EXPECT_EQ(after.Of("c.cuh"), before.Of("c.cuh"));
  EXPECT_EQ(after.Of("d.cuh"), before.Of("d.cuh"));
  HeaderMap renamed = Library();
  renamed["e.cuh"] = renamed["d.cuh"];
  EXPECT_NE(HeaderDigests(renamed).Of("e.cuh"), before.Of("d.cuh"));
}

TEST(HeaderDigests, KnowNoHeaderThatIsNotThere) {
  EXPECT_EQ(HeaderDigests(Library()).Of("e.cuh"), Digest());
}

}  // namespace
}  // namespace sinter
