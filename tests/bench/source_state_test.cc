#include "tests/bench/source_state.h"

#include "tests/support/test.h"

namespace sinter::bench {
namespace {

// In a folder of its own, and back.
class SourceStates : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "sinter-source-XXXXXX";
    ASSERT_NE(mkdtemp(&folder[0]), nullptr);
    folder_ = folder;
    home_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(home_);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_, home_;
};

TEST_F(SourceStates, TheBuildSays) {
  const SourceState state = DescribeSource(), built = SourceOfBuild();
  EXPECT_EQ(state.commit, built.commit);
  EXPECT_EQ(state.dirty, built.dirty);
  EXPECT_TRUE(built.commit == "unknown" || built.commit.size() == 12) << built.commit;
  EXPECT_TRUE(built.commit != "unknown" || built.dirty);
}

TEST_F(SourceStates, AFileSaysItBeforeAllElse) {
  std::ofstream("COMMIT") << "0123abcd clean\n";
  EXPECT_EQ(DescribeSource().commit, "0123abcd");
  EXPECT_FALSE(DescribeSource().dirty);
  std::ofstream("COMMIT") << "0123abcd dirty\n";
  EXPECT_TRUE(DescribeSource().dirty);
}

}  // namespace
}  // namespace sinter::bench
