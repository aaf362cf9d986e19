#include "src/base/log.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

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
