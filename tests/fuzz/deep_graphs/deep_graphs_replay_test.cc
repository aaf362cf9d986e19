// Replays the corpus, and seeded mutations of it, without libFuzzer: a third in an everyday run,
// which the commit draws.
#include "tests/fuzz/mutate.h"
#include "tests/support/drawn.h"
#include "tests/support/test.h"

namespace sinter::deep_graphs_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

TEST(Replay, DeepGraphsArePlannedOrRefusedInTime) {
  const std::vector<std::string> corpus = SortedCorpus("tests/fuzz/deep_graphs/corpus");
  ASSERT_GE(corpus.size(), 12u);
  std::mt19937_64 random(1);
  size_t number = 0;
  for (const std::string& bytes : corpus) {
    const std::string mutated = Mutate(bytes, &random, /*kept=*/3);  // of as many ops
    if (!IsDrawn(number++, 3)) continue;
    Replay(Target, bytes);
    Replay(Target, mutated);
  }
}

}  // namespace
}  // namespace sinter::deep_graphs_fuzz
