#include "tests/bench/source_state.h"

#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter::bench {
namespace {

// In a folder of its own, and back.
class SourceStates : public ::testing::Test {
 protected:
  void SetUp() override {
    home_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path());
  }
  void TearDown() override { std::filesystem::current_path(home_); }
  const TempDir folder_;
  std::filesystem::path home_;
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
