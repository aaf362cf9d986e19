
#include "nlohmann/json.hpp"
#include "src/base/log.h"
#include "tests/support/child.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using nlohmann::json;

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() { std::filesystem::create_directory(folder_); }
  ~TraceTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const char* name) const { return folder_ + "/" + name; }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                             std::filesystem::directory_iterator()));
  }
  static json Read(const std::string& path) { return json::parse(std::ifstream(path)); }

 private:
  const std::string folder_ = ::testing::TempDir() + "sinter-trace-" + std::to_string(getpid());
};

TEST_F(TraceTest, SpansOfSeveralThreadsNestAndTellTheirDetail) {
  Trace trace(Path("t.json"));
  {
    const TraceSpan outer(&trace, "prepare", "chain \"a\\b\"\x1b[31m");
    const TraceSpan inner(&trace, "search");
  }
  std::thread([&trace] { const TraceSpan span(&trace, "compile", std::string(1000, 'x')); }).join();
  ASSERT_TRUE(trace.Write().ok());
  const json events = Read(Path("t.json"))["traceEvents"];
  ASSERT_EQ(events.size(), 4u);  // the process's name, then spans as they ended
  EXPECT_EQ(events[1]["name"], "search");
  EXPECT_EQ(events[2]["name"], "prepare");
  EXPECT_EQ(events[2]["args"]["detail"], "chain \"a\\b\"\\x1b[31m");
  EXPECT_LE(events[2]["ts"], events[1]["ts"]);
  EXPECT_GE(events[2]["ts"].get<double>() + events[2]["dur"].get<double>(),
            events[1]["ts"].get<double>() + events[1]["dur"].get<double>() - 1e-3);
  EXPECT_NE(events[3]["tid"], events[1]["tid"]);
  EXPECT_EQ(events[3]["args"]["detail"].get<std::string>().size(), Trace::kMostDetail);
  for (const json& event : events) EXPECT_EQ(event["pid"], getpid());
}

TEST_F(TraceTest, OfTooManySpansTheFirstAreKeptAndTheRestCounted) {
  Trace trace(Path("t.json"));
  for (size_t i = 0; i < Trace::kMostSpans + 7; ++i) trace.Add("load", "", {}, {});
  ASSERT_TRUE(trace.Write().ok());
  const json read = Read(Path("t.json"));
  EXPECT_EQ(read["traceEvents"].size(), Trace::kMostSpans + 1);
  EXPECT_EQ(read["otherData"]["dropped"], 7);
}

TEST_F(TraceTest, AFileIsReplacedWholeAndNamedByItsProcess) {
  std::ofstream(Path("t.json")) << std::string(1 << 20, '!');
  ASSERT_TRUE(Trace(Path("t.json")).Write().ok());
  EXPECT_EQ(Read(Path("t.json"))["traceEvents"].size(), 1u);
  ASSERT_TRUE(Trace(Path("%p.json")).Write().ok());
  EXPECT_EQ(Read(Path((std::to_string(getpid()) + ".json").c_str()))["traceEvents"].size(), 1u);
  EXPECT_EQ(Files(), 2u);
}

TEST_F(TraceTest, AFolderThatIsNotThereIsAnErrorAndLeavesNothing) {
  EXPECT_TRUE(
      Fails(Trace(Path("no/t.json")).Write(), absl::StatusCode::kUnavailable, "No such file"));
  std::filesystem::create_directory(Path("t.json"));
  EXPECT_FALSE(Trace(Path("t.json")).Write().ok());  // the name is a folder's
  EXPECT_EQ(Files(), 1u);
}

TEST_F(TraceTest, AChildOfAForkWritesNothing) {
  Trace trace(Path("t.json"));
  EXPECT_EQ(EndOfChild([&] {
              trace.Add("load", "", {}, {});
              return trace.Write().ok() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(Files(), 0u);
}

TEST_F(TraceTest, ASpanWithoutATraceIsInNone) {
  Trace trace(Path("t.json"));
  {
    const TraceSpan without(nullptr, "load", std::string(2 * Trace::kMostDetail, 'x'));
    const TraceSpan with(&trace, "search");
  }
  ASSERT_TRUE(trace.Write().ok());
  const json events = Read(Path("t.json"))["traceEvents"];
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1]["name"], "search");
  EXPECT_EQ(Files(), 1u);
}

}  // namespace
}  // namespace sinter
