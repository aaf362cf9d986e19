// Replays sound inputs and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter::cache_record_fuzz {

int Target(const uint8_t* data, size_t size);

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
      "\x02" + cache_testing::BuildTable("k/name", record),
      "\x02" + cache_testing::BuildTable("k/name", ""),
  };
}

// The test runs in the root of the source tree.
TEST(CacheRecordFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/cache_record/corpus")) {
    Replay(Target, cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 6);
}

// With SINTER_WRITE_CORPUS set, each seed is written there.
TEST(CacheRecordFuzzTest, SeedsAndMutationsAreHandled) {
  const char* const names[] = {"kernel_key",    "plan_key", "envelope",
                               "kernel_record", "table",    "empty_table"};
  const char* corpus = getenv("SINTER_WRITE_CORPUS");
  std::mt19937_64 random(5);
  int executions = 0, number = 0;
  for (const std::string& seed : Seeds()) {
    if (corpus != nullptr) {
      cache_testing::WriteFile(absl::StrCat(corpus, "/", names[number++]), seed);
    }
    Replay(Target, seed);
    for (int i = 0; i < 10000; ++i, ++executions) Replay(Target, Mutate(seed, &random));
  }
  std::cout << "cache record fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter::cache_record_fuzz
