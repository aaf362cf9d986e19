
#include "tests/support/header_digests.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

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

TEST(DigestOfReached, CoversNamesAndBytesOfWhatIsReachedAlone) {
  const HeaderDigest before = DigestOfReached(Library());
  HeaderMap changed = Library();
  changed["b.cuh"] = "#include \"a.cuh\"\nint b2;\n";
  const HeaderDigest after = DigestOfReached(changed);
  EXPECT_NE(after("a.cuh"), before("a.cuh"));
  EXPECT_NE(after("b.cuh"), before("b.cuh"));
  EXPECT_EQ(after("c.cuh"), before("c.cuh"));
  EXPECT_EQ(after("d.cuh"), before("d.cuh"));
  HeaderMap renamed = Library();
  renamed["e.cuh"] = renamed["d.cuh"];
  EXPECT_NE(DigestOfReached(renamed)("e.cuh"), before("d.cuh"));
}

// What the build wrote is what the headers say.
TEST(EmbeddedHeaderDigest, IsTheDigestOfWhatTheHeaderReaches) {
  const HeaderMap all = DeviceHeaderMap();
  const HeaderDigest computed = DigestOfReached(all);
  EXPECT_GT(all.size(), 50u);
  size_t shared = 0;
  for (const auto& header : all) {
    EXPECT_EQ(EmbeddedHeaderDigest(header.first), computed(header.first)) << header.first;
    shared += ReachedHeaders(absl::StrCat("#include \"", header.first, "\""), all).size() > 1;
  }
  EXPECT_GT(shared, 20u);
}

TEST(EmbeddedHeaderDigest, KnowsNoHeaderThatIsNotThere) {
  for (const char* name : {"", "a.cuh", "kernels/product.cu", "zzz.cuh"}) {
    EXPECT_EQ(EmbeddedHeaderDigest(name), Digest()) << name;
    EXPECT_EQ(DigestOfReached(DeviceHeaderMap())(name), Digest()) << name;
  }
}

}  // namespace
}  // namespace sinter::testing
