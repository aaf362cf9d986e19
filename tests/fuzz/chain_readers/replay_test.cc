// Replays a corpus, and seeded mutations of it, through a fuzz target without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutations = 100;  // of each file

std::vector<std::string> Corpus() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(SINTER_CORPUS)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void Feed(const std::string& bytes) {
  EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
            0);
}

std::string Mutate(std::string bytes, std::mt19937& engine) {
  for (int edits = 1 + static_cast<int>(engine() % 3); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = engine() % bytes.size();
    switch (engine() % 4) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << engine() % 8));
        break;
      case 1:
        bytes.erase(at, 1 + engine() % 4);
        break;
      case 2:
        bytes.insert(at, bytes.substr(engine() % bytes.size(), engine() % 8));
        break;
      default:
        bytes[at] = "0129-M[]{}\",=# \n"[engine() % 16];
    }
  }
  return bytes;
}

TEST(Replay, CorpusAndItsMutationsHoldTheTargetsInvariants) {
  const std::vector<std::string> corpus = Corpus();
  ASSERT_GE(corpus.size(), 3u);
  std::mt19937 engine(1);
  Feed("");
  for (const std::string& bytes : corpus) {
    Feed(bytes);
    for (int i = 0; i < kMutations; ++i) Feed(Mutate(bytes, engine));
  }
}

}  // namespace
