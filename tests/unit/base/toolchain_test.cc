#include "src/base/compile_request.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr char kId[] = "nvrtc-13.0-8f3a90c1d2e4";

TEST(ToolchainTest, TheIdHoldsVersionAndIdentity) {
  EXPECT_EQ(MakeToolchainId(13, 0, "8f3a90c1d2e4"), kId);
}

TEST(ToolchainTest, TheVersionIsReadFromTheId) {
  EXPECT_EQ(NvrtcVersionOf(kId), 1300);
  EXPECT_EQ(NvrtcVersionOf("nvrtc-12.8-abc"), 1208);
  for (const char* other :
       {"", "fake 1", "nvrtc-", "nvrtc-13-x", "nvrtc-12.8.1-x", "nvrtc-99999999999.1-x"}) {
    EXPECT_EQ(NvrtcVersionOf(other), 0) << other;
  }
}

TEST(ToolchainDenyListTest, MatchesVersionsWholeAndIdentitiesByTheirStart) {
  const struct {
    const char* entries;
    const char* id;
    const char* match;
  } cases[] = {
      {"", kId, ""},
      {"13.0", kId, "13.0"},
      {"13.1", kId, ""},
      {"3.0", kId, ""},
      {"13.0", "nvrtc-13.01-8f3a90c1d2e4", ""},
      {"8f3a90c1", kId, "8f3a90c1"},
      {"8F3A90C1D2E4", kId, "8f3a90c1d2e4"},
      {"3a90c1d2e4", kId, ""},
      {"8f3a90c1d2e4ff", kId, ""},
      {"12.9 , 8f3a90c1 ,", kId, "8f3a90c1"},
      {"sha256:0011aabb", "nvrtc-13.0-sha256:0011AABBCC", "sha256:0011aabb"},
      {"0011aabb", "nvrtc-13.0-sha256:0011aabbcc", ""},
      {"13.0", "some other compiler", ""},
      {"13.0", "nvrtc-13.0", ""},
      {"13.0", "", ""},
  };
  for (const auto& c : cases) {
    ToolchainDenyList list;
    ASSERT_TRUE(list.Add(c.entries).ok()) << c.entries;
    EXPECT_EQ(list.Match(c.id), c.match) << c.entries << " " << c.id;
    EXPECT_EQ(list.empty(), *c.entries == '\0');
  }
}

TEST(ToolchainDenyListTest, GrowsAndRefusesWhatIsNoToolchainWhole) {
  ToolchainDenyList list;
  for (const char* bad : {"13", "13.", ".0", "13.0.88", "abcdef1", "nvrtc-13.0", "8f3a90cg", "*",
                          "12.9,everything", "sha256:12"}) {
    EXPECT_TRUE(Fails(list.Add(bad), absl::StatusCode::kInvalidArgument, "is neither a version"))
        << bad;
  }
  EXPECT_TRUE(list.empty());
  ASSERT_TRUE(list.Add("12.9").ok());
  ASSERT_TRUE(list.Add("13.0").ok());
  EXPECT_EQ(list.Match(kId), "13.0");
  EXPECT_EQ(list.Match("nvrtc-12.9-00000000"), "12.9");
}

}  // namespace
}  // namespace sinter
