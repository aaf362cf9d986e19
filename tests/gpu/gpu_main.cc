// main() of GPU tests: exits 77 without a usable GPU, and ends a test that hangs.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/watchdog.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kSkipped = 77;
constexpr double kTestSeconds = 120;

// Each suite's preparation and each test may take SINTER_GPU_TEST_SECONDS.
class TimeLimit : public ::testing::EmptyTestEventListener {
 public:
  explicit TimeLimit(double seconds) : seconds_(seconds) {}
  void OnTestSuiteStart(const ::testing::TestSuite& suite) override {
    watchdog_.Begin(absl::StrCat("preparing ", suite.name()), seconds_);
  }
  void OnTestStart(const ::testing::TestInfo& test) override {
    watchdog_.Begin(absl::StrCat(test.test_suite_name(), ".", test.name()), seconds_);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { watchdog_.End(); }

 private:
  const double seconds_;
  Watchdog watchdog_;
};

double SecondsPerTest() {
  const char* text = std::getenv("SINTER_GPU_TEST_SECONDS");
  const double given = text == nullptr ? 0 : std::atof(text);
  return given > 0 ? given : kTestSeconds;
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  using namespace sinter::gpu_testing;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  ::testing::InitGoogleTest(&argc, argv);
  if (!::testing::GTEST_FLAG(list_tests)) {
    const auto ports = sinter::MakePorts(TestConfig(), 0, "", sinter::LogSink());
    if (!ports.ok()) {
      std::printf("skipped: %s\n", std::string(ports.status().message()).c_str());
      return kSkipped;
    }
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit(SecondsPerTest()));
  return RUN_ALL_TESTS();
}
