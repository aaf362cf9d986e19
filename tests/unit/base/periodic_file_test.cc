
#include "src/base/transfer.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using std::chrono::milliseconds;

class PeriodicFileTest : public ::testing::Test {
 protected:
  PeriodicFileTest() {
    std::string name = ::testing::TempDir() + "periodic-XXXXXX";
    folder_ = mkdtemp(&name[0]);
  }
  ~PeriodicFileTest() override {
    unlink(Path().c_str());
    rmdir(folder_.c_str());  // empty: no temporary file is left
    EXPECT_NE(access(folder_.c_str(), F_OK), 0);
  }
  std::string Path() const { return folder_ + "/" + std::to_string(getpid()) + ".prom"; }
  LogSink Log() {
    return LogSink(LogLevel::kWarn, [this](LogLevel, absl::string_view line) {
      lines_.push_back(std::string(line));
    });
  }

  std::string folder_;
  std::vector<std::string> lines_;
};

TEST_F(PeriodicFileTest, TheTextIsWrittenAgainAndAtTheEnd) {
  std::atomic<int> count{0};
  {
    const PeriodicFile file(
        "FILE_VARIABLE", folder_ + "/%p.prom", milliseconds(1),
        [&] { return std::to_string(++count); }, Log());
    while (count < 3) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_FALSE(FileText(Path()).empty());
    struct stat info {};
    ASSERT_EQ(stat(Path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0644u);
  }
  EXPECT_EQ(FileText(Path()), std::to_string(count));
  EXPECT_TRUE(lines_.empty());
}

TEST_F(PeriodicFileTest, AnEndDoesNotWaitForThePeriod) {
  const auto begin = std::chrono::steady_clock::now();
  {
    const PeriodicFile file(
        "FILE_VARIABLE", Path(), std::chrono::hours(1), [] { return "text"; }, Log());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(FileText(Path()), "text");
}

TEST_F(PeriodicFileTest, WhatCannotBeWrittenIsSaidOnce) {
  {
    std::atomic<int> count{0};
    const PeriodicFile file(
        "FILE_VARIABLE", folder_ + "/none/x", milliseconds(1),
        [&] { return std::to_string(++count); }, Log());
    while (count < 3) std::this_thread::sleep_for(milliseconds(1));
  }
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], HasSubstr("FILE_VARIABLE: create " + folder_ + "/none/x: No such file"));
}

TEST_F(PeriodicFileTest, TheChildOfAForkWritesNothing) {
  auto file = std::make_unique<PeriodicFile>(
      "FILE_VARIABLE", Path(), std::chrono::hours(1), [] { return std::to_string(getpid()); },
      Log());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    file.reset();
    _exit(0);
  }
  int end = 0;
  ASSERT_EQ(waitpid(child, &end, 0), child);
  EXPECT_TRUE(WIFEXITED(end)) << end;
  file.reset();
  EXPECT_EQ(FileText(Path()), std::to_string(getpid()));
}

}  // namespace
}  // namespace sinter
