// Replays sound inputs and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/unit/cache/pack/pack_testing.h"

namespace sinter::cache_exchange_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

using ExchangeFuzzTest = pack_testing::PackTest;

TEST_F(ExchangeFuzzTest, TheCorpusSeedsAndMutationsAreHandled) {
  Fill(2);
  const std::string pack = cache_testing::ReadFile(Pack());
  const auto tail = *DecodeTail(pack.substr(pack.size() - kPackTailBytes), pack.size());
  const std::string manifest = pack.substr(tail.table_bytes, tail.manifest_bytes);
  const std::string length = {static_cast<char>(tail.table_bytes & 0xff),
                              static_cast<char>(tail.table_bytes >> 8)};
  const std::map<std::string, std::string> seeds = {
      {"seed0", '\0' + manifest},
      {"seed1", '\0' + pack.substr(pack.size() - kPackTailBytes)},
      {"seed2", '\1' + pack},
      {"seed3", '\2' + length + pack.substr(0, tail.table_bytes) + manifest},
      {"seed4", "\3+OK\r\n"},
      {"seed5", "\3$5\r\nhello\r\n"},
      {"seed6", "\3*3\r\n$-1\r\n:42\r\n*1\r\n$66\r\nk:" + std::string(64, 'a') + "\r\n"},
      {"seed7", "\3-ERR unknown command\r\n"},
      {"seed8", "\4redis://fleet@[::1]:7000/3"},
      {"seed9", "\4redis+unix:///run/redis.sock?db=2"},
      {"seed10", "\4SNTRHMC\n" + std::string(40, 'x')},
  };
  EXPECT_GE(ReplaySeeds(Target, "tests/fuzz/cache_exchange/corpus", seeds, 4000), 11);
}

}  // namespace
}  // namespace sinter::cache_exchange_fuzz
