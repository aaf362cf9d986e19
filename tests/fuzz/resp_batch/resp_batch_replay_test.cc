// Replays sound answers and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter::resp_batch_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> BatchSeeds() {
  const std::string head[] = {std::string("\0\0\x84", 3), "\1\7\x25", "\3\x7f\xff"};
  return {
      head[0] + "+OK\r\n",
      head[0] + "*3\r\n$-1\r\n:42\r\n*1\r\n$66\r\nk:" + std::string(64, 'a') + "\r\n",
      head[1] + "$5\r\nhello\r\n$-1\r\n",
      head[1] + ":1\r\n-ERR unknown command\r\n",
      head[2] + "$300\r\n" + std::string(300, 'v') + "\r\n$-1\r\n$0\r\n\r\n+OK\r\n",
  };
}

// The test runs in the root of the source tree.
TEST(RespBatchFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/resp_batch/corpus")) {
    Replay(Target, cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 5);
}

// With SINTER_WRITE_CORPUS set, each seed is written there.
TEST(RespBatchFuzzTest, SeedsAndMutationsAreHandled) {
  const char* corpus = getenv("SINTER_WRITE_CORPUS");
  std::mt19937_64 random(11);
  int executions = 0, number = 0;
  for (const std::string& seed : BatchSeeds()) {
    if (corpus != nullptr) {
      cache_testing::WriteFile(absl::StrCat(corpus, "/seed", number++), seed);
    }
    Replay(Target, seed);
    for (int i = 0; i < 10000; ++i, ++executions) Replay(Target, Mutate(seed, &random));
  }
  std::cout << "resp batch fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::resp_batch_fuzz
