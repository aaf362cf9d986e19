// The main function of a program that holds the tests of several files: `--of=a_test.cc,b_test.cc`
// runs only the tests of these files. Without it all run, in one process.
#include "absl/strings/strip.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

// A filter of GoogleTest; empty: the file has no test.
std::string FilterOf(absl::string_view file) {
  std::string filter;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const ::testing::TestInfo& test = *suite.GetTestInfo(j);
      if (!absl::EndsWith(test.file(), absl::StrCat("/", file))) continue;
      absl::StrAppend(&filter, suite.name(), ".", test.name(), ":");
    }
  }
  return filter;
}

}  // namespace
}  // namespace sinter::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    absl::string_view files = argv[i];
    if (!absl::ConsumePrefix(&files, "--of=")) continue;
    for (const absl::string_view file : absl::StrSplit(files, ',')) {
      const std::string tests = sinter::testing::FilterOf(file);
      if (tests.empty()) {
        std::printf("%s: no test of a file %s\n", argv[0], std::string(file).c_str());
        return 1;
      }
      filter += tests;
    }
  }
  if (!filter.empty()) ::testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}
