// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it.
#include "src/base/compile_request.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::cubin_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/cubin/corpus";  // the test runs in the root of the tree

TEST(CubinFuzzTest, TheCorpusAndMutationsAreHandled) {
  int accepted = 0;
  const int files =
      ReplayCorpus(Target, kCorpus, 1000, 0, [&](const std::string&, const std::string& seed) {
        accepted += CheckCubin(seed).ok() ? 1 : 0;
      });
  EXPECT_GE(files, 32);
  EXPECT_GT(accepted, 0);  // so that what is accepted was read
}

}  // namespace
}  // namespace sinter::cubin_fuzz
