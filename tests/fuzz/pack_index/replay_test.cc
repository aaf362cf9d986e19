// Replays sound tables of packs and seeded mutations of them through the fuzz target, so that every
// build runs some of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "cache/store/table.h"
#include "tests/fuzz/mutate.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

std::string TableOf(int records) {
  std::string bytes;
  TableWriter table(&bytes);
  for (int i = 0; i < records; ++i) {
    table.Add(absl::StrCat("k/", std::string(31, 'a'), i % 10), "value");
  }
  table.Finish();
  return bytes;
}

// The test runs in the root of the source tree.
TEST(PackIndexFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/pack_index/corpus")) {
    Replay(cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 3);
}

// With SINTER_WRITE_CORPUS set, each seed is written there.
TEST(PackIndexFuzzTest, SeedsAndMutationsAreHandled) {
  const char* corpus = getenv("SINTER_WRITE_CORPUS");
  std::mt19937_64 random(7);
  int executions = 0, number = 0;
  for (const std::string& seed : {TableOf(0), TableOf(1), TableOf(5)}) {
    if (corpus != nullptr) {
      cache_testing::WriteFile(absl::StrCat(corpus, "/seed", number++), seed);
    }
    Replay(seed);
    for (int i = 0; i < 10000; ++i, ++executions) Replay(Mutate(seed, &random));
  }
  std::cout << "pack index fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter
