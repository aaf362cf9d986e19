// Replays sound inputs and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/unit/cache/pack/pack_testing.h"

namespace sinter::cache_exchange_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

class ExchangeFuzzTest : public pack_testing::PackTest {
 protected:
  // With SINTER_WRITE_CORPUS set, each seed is written there.
  std::vector<std::string> Seeds() {
    Fill(2);
    const std::string pack = cache_testing::ReadFile(Pack());
    const auto tail = *DecodeTail(pack.substr(pack.size() - kPackTailBytes), pack.size());
    const std::string manifest = pack.substr(tail.table_bytes, tail.manifest_bytes);
    const std::string length = {static_cast<char>(tail.table_bytes & 0xff),
                                static_cast<char>(tail.table_bytes >> 8)};
    return {
        '\0' + manifest,
        '\0' + pack.substr(pack.size() - kPackTailBytes),
        '\1' + pack,
        '\2' + length + pack.substr(0, tail.table_bytes) + manifest,
        "\3+OK\r\n",
        "\3$5\r\nhello\r\n",
        "\3*3\r\n$-1\r\n:42\r\n*1\r\n$66\r\nk:" + std::string(64, 'a') + "\r\n",
        "\3-ERR unknown command\r\n",
        "\4redis://fleet@[::1]:7000/3",
        "\4redis+unix:///run/redis.sock?db=2",
        "\4SNTRHMC\n" + std::string(40, 'x'),
    };
  }
};

// The test runs in the root of the source tree.
TEST_F(ExchangeFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/cache_exchange/corpus")) {
    Replay(Target, cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 11);
}

TEST_F(ExchangeFuzzTest, SeedsAndMutationsAreHandled) {
  const char* corpus = getenv("SINTER_WRITE_CORPUS");
  std::mt19937_64 random(5);
  int executions = 0, number = 0;
  for (const std::string& seed : Seeds()) {
    if (corpus != nullptr) {
      cache_testing::WriteFile(absl::StrCat(corpus, "/seed", number++), seed);
    }
    Replay(Target, seed);
    for (int i = 0; i < 4000; ++i, ++executions) Replay(Target, Mutate(seed, &random));
  }
  std::cout << "cache exchange fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::cache_exchange_fuzz
