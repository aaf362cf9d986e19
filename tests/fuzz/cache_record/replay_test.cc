// Replays sound inputs and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "cache/record/envelope.h"
#include "cache/store/table.h"
#include "tests/unit/cache/cache_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace sinter {
namespace {

std::vector<std::string> Seeds() {
  const std::string key = EncodeKey(cache_testing::SampleKernelKey());
  const std::string kernel = EncodeKernelRecord(cache_testing::SampleKernelRecord());
  Envelope envelope;
  envelope.kind = RecordKind::kKernel;
  envelope.arch = "sm_90a";
  envelope.key = key;
  envelope.payload = kernel;
  const std::string record = EncodeEnvelope(envelope);
  return {
      std::string(1, '\0') + key,
      std::string(1, '\0') + EncodeKey(cache_testing::SamplePlanKey()),
      "\x01" + record,
      "\x01" + kernel,
      "\x02" + *BuildTable("k/name", record),
      "\x02" + *BuildTable("k/name", ""),
      "\x03" + cache_testing::SmallCubin(),
  };
}

std::string Mutate(std::string bytes, std::mt19937_64* random) {
  const int edits = 1 + static_cast<int>((*random)() % 4);
  for (int i = 0; i < edits && bytes.size() > 1; ++i) {
    const size_t at = 1 + (*random)() % (bytes.size() - 1);
    switch ((*random)() % 5) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << ((*random)() % 8)));
        break;
      case 1:
        bytes[at] = static_cast<char>((*random)());
        break;
      case 2:
        bytes.erase(at, 1 + (*random)() % 16);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, 1 + (*random)() % 16));
        break;
      default:
        for (size_t j = at; j < std::min(at + 8, bytes.size()); ++j) bytes[j] = '\xff';
    }
  }
  return bytes;
}

void Replay(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// The test runs in the root of the source tree.
TEST(CacheRecordFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/cache_record/corpus")) {
    Replay(cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 7);
}

TEST(CacheRecordFuzzTest, SeedsAndMutationsAreHandled) {
  std::mt19937_64 random(5);
  int executions = 0;
  for (const std::string& seed : Seeds()) {
    Replay(seed);
    for (int i = 0; i < 10000; ++i, ++executions) Replay(Mutate(seed, &random));
  }
  std::cout << "cache record fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter
