// Where a dump writes: never through a link, never over what no dump wrote, never into a fifo.
#include "src/engine/prepared_plan.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

namespace fs = std::filesystem;

class DumpTest : public ::testing::Test {
 protected:
  DumpTest() {
    std::string name = "/tmp/sinter-dump-XXXXXX";
    base_ = mkdtemp(&name[0]);
  }
  ~DumpTest() override { fs::remove_all(base_); }

  std::string At(const std::string& name) const { return (base_ / name).string(); }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static void Put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat st {};
    EXPECT_EQ(lstat(path.c_str(), &st), 0) << path;
    return st.st_mode & 07777;
  }

  fs::path base_;
};

TEST_F(DumpTest, FoldersArePrivateAndAFileOfADumpIsReplaced) {
  const mode_t before = umask(0);
  for (const char* text : {"first", "2nd"}) {
    const auto top = Got(DumpFolder::Open(At("a/b//./c")));
    const auto folder = Got(top.Sub("0123456789abcdef"));
    EXPECT_TRUE(folder.Write("plan.txt", text).ok());
    EXPECT_EQ(Read(At("a/b/c/0123456789abcdef/plan.txt")), text);
  }
  umask(before);
  for (const char* made : {"a", "a/b", "a/b/c", "a/b/c/0123456789abcdef"}) {
    EXPECT_EQ(ModeOf(At(made)), 0700u) << made;
  }
  EXPECT_EQ(ModeOf(At("a/b/c/0123456789abcdef/plan.txt")), 0600u);
}

TEST_F(DumpTest, ALinkOnTheWayIsRefusedByName) {
  fs::create_directory(At("victim"));
  fs::create_symlink(At("victim"), At("link"));
  for (const char* path : {"link", "link/below"}) {
    EXPECT_TRUE(
        Fails(DumpFolder::Open(At(path)), absl::StatusCode::kPermissionDenied, "link: is a link"));
  }
  const auto top = Got(DumpFolder::Open(At("dump")));
  fs::create_symlink(At("victim"), At("dump/plan"));
  EXPECT_TRUE(absl::IsPermissionDenied(top.Sub("plan").status()));
  EXPECT_TRUE(fs::is_empty(At("victim")));
}

TEST_F(DumpTest, WhatNoDumpWroteStaysAsItIs) {
  Put(At("victim"), "mine");
  const auto top = Got(DumpFolder::Open(At("dump")));
  const auto folder = Got(top.Sub("plan"));
  fs::create_symlink(At("victim"), At("dump/plan/link"));
  fs::create_symlink(At("nowhere"), At("dump/plan/dangling"));
  fs::create_hard_link(At("victim"), At("dump/plan/second"));
  ASSERT_EQ(mkfifo(At("dump/plan/fifo").c_str(), 0600), 0);
  const int reader = open(At("dump/plan/fifo").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(mkfifo(At("dump/plan/unread").c_str(), 0600), 0);
  for (const char* name : {"link", "dangling", "second", "fifo", "unread"}) {
    EXPECT_TRUE(absl::IsAlreadyExists(folder.Write(name, "dump"))) << name;
  }
  close(reader);
  EXPECT_EQ(Read(At("victim")), "mine");
  EXPECT_FALSE(fs::exists(At("nowhere")));
  // A folder that was there, and files in it, are somebody's.
  fs::create_directory(At("dump/other"));
  Put(At("dump/other/notes"), "mine");
  const auto other = Got(top.Sub("other"));
  EXPECT_TRUE(absl::IsAlreadyExists(other.Write("notes", "dump")));
  EXPECT_TRUE(other.Write("new", "dump").ok());
  EXPECT_EQ(Read(At("dump/other/notes")), "mine");
}

TEST_F(DumpTest, AFolderThatEverybodyMayWriteIsRefused) {
  fs::create_directory(At("open"));
  ASSERT_EQ(chmod(At("open").c_str(), 0777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open")).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open/below")).status()));
  ASSERT_EQ(chmod(At("open").c_str(), 01777), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(DumpFolder::Open(At("open")).status()));
  EXPECT_TRUE(DumpFolder::Open(At("open/below")).ok());
}

TEST_F(DumpTest, NamesLeadNowhereElse) {
  const auto top = Got(DumpFolder::Open(At("dump")));
  for (const char* name : {"", ".", "..", "../x", "a/b", "a b", ".sinter-dump"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(top.Write(name, "x"))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(top.Sub(name).status())) << name;
  }
}

// The whole way: a plan is prepared, its dump refused with one warning, and the fifo does not hang.
TEST_F(DumpTest, APreparedPlanIsNotDumpedThroughALink) {
  fs::create_directory(At("victim"));
  fs::create_symlink(At("victim"), At("link"));
  FakeWorld world;
  Config config{.dump_dir = At("link")};
  EXPECT_TRUE(world.MakeEngine(config)->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(fs::is_empty(At("victim")));
  config.dump_dir = At("dump");
  const auto plan = world.MakeEngine(config)->Prepare(world.chain, 16, {}).value();
  const std::string text =
      At("dump/" + plan->plan().PlanDigest().Hex().substr(0, 16) + "/plan.txt");
  ASSERT_TRUE(fs::remove(text));
  ASSERT_EQ(mkfifo(text.c_str(), 0600), 0);
  EXPECT_TRUE(world.MakeEngine(config)->Prepare(world.chain, 16, {}).ok());
  EXPECT_TRUE(fs::is_fifo(text));
}

}  // namespace
}  // namespace sinter
