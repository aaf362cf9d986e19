// main() of GPU tests: exits 77 without a usable GPU, and ends a test that hangs.
//   gpu_tests            every test
//   gpu_tests NAME       the tests of NAME_gpu_test.cc
//   gpu_tests --names    the names
#include "absl/strings/strip.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/watchdog.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kSkipped = 77, kBadArgument = 2;
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

// tests/gpu/small_gpu_test.cc: small.
std::string NameOf(const ::testing::TestSuite& suite) {
  absl::string_view name = suite.GetTestInfo(0)->file();
  name.remove_prefix(name.rfind('/') + 1);
  return std::string(absl::StripSuffix(name, "_gpu_test.cc"));
}

// By name, the filter that runs its tests.
std::map<std::string, std::string> Filters() {
  std::map<std::string, std::string> filters;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    absl::StrAppend(&filters[NameOf(suite)], suite.name(), ".*:");
  }
  return filters;
}

// Obeys what googletest left of the arguments. The exit code of a run that ends here, else -1.
int Select(int argc, char** argv) {
  if (argc == 1) return -1;
  const std::map<std::string, std::string> filters = Filters();
  const std::string argument = argv[1];
  const auto named = filters.find(argument);
  if (argc == 2 && named != filters.end() && ::testing::GTEST_FLAG(filter) == "*") {
    ::testing::GTEST_FLAG(filter) = named->second;
    return -1;
  }
  if (argc > 2 || argument != "--names") {
    std::fprintf(stderr,
                 "usage: gpu_tests [--names | NAME | --gtest_filter=PATTERN]; not both a name and "
                 "a filter\n");
    return kBadArgument;
  }
  for (const auto& [name, filter] : filters) std::printf("%s\n", name.c_str());
  return 0;
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  using namespace sinter::gpu_testing;
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  ::testing::InitGoogleTest(&argc, argv);
  if (const int code = Select(argc, argv); code >= 0) return code;
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
