// Replays the corpus, and seeded mutations of it, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace sinter {
namespace {

TEST(Replay, DeepGraphsArePlannedOrRefusedInTime) {
  std::vector<std::string> corpus;
  for (const auto& entry : std::filesystem::directory_iterator(SINTER_CORPUS)) {
    std::ifstream in(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::sort(corpus.begin(), corpus.end());
  ASSERT_GE(corpus.size(), 12u);
  std::mt19937_64 random(1);
  for (const std::string& bytes : corpus) {
    Replay(bytes);
    Replay(Mutate(bytes, &random, /*kept=*/3));  // of as many ops
  }
}

}  // namespace
}  // namespace sinter
