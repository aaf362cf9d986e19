// Replays sound answers and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::resp_batch_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

TEST(RespBatchFuzzTest, TheCorpusSeedsAndMutationsAreHandled) {
  const std::string head[] = {std::string("\0\0\x84", 3), "\1\7\x25", "\3\x7f\xff"};
  const std::map<std::string, std::string> seeds = {
      {"seed0", head[0] + "+OK\r\n"},
      {"seed1", head[0] + "*3\r\n$-1\r\n:42\r\n*1\r\n$66\r\nk:" + std::string(64, 'a') + "\r\n"},
      {"seed2", head[1] + "$5\r\nhello\r\n$-1\r\n"},
      {"seed3", head[1] + ":1\r\n-ERR unknown command\r\n"},
      {"seed4", head[2] + "$300\r\n" + std::string(300, 'v') + "\r\n$-1\r\n$0\r\n\r\n+OK\r\n"},
  };
  EXPECT_GE(ReplaySeeds(Target, "tests/fuzz/resp_batch/corpus", seeds, 10000), 5);
}

}  // namespace
}  // namespace sinter::resp_batch_fuzz
