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
  std::mt19937_64 random(5);
  int files = 0, accepted = 0, executions = 0;
  for (const auto& file : std::filesystem::directory_iterator(kCorpus)) {
    const std::string seed = ReadFile(file.path());
    Replay(Target, seed);
    ++files;
    for (int i = 0; i < 1000; ++i, ++executions) {
      const std::string mutated = Mutate(seed, &random, 0);
      Replay(Target, mutated);
      accepted += CheckCubin(mutated).ok() ? 1 : 0;
    }
  }
  EXPECT_GE(files, 32);
  EXPECT_GT(accepted, 0);  // so that what is accepted was read
  std::cout << "cubin fuzz: executions " << executions << " accepted " << accepted << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::cubin_fuzz
