// Replays sound inputs and seeded mutations of them through the fuzz target, so that every build
// runs some of it.
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter::cache_record_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

TEST(CacheRecordFuzzTest, TheCorpusSeedsAndMutationsAreHandled) {
  const std::string key = EncodeKey(cache_testing::SampleKernelKey());
  const std::string kernel = EncodeKernelRecord(cache_testing::SampleKernelRecord());
  const std::string record = EncodeEnvelope(
      {.kind = RecordKind::kKernel, .arch = "sm_90a", .key = key, .payload = kernel});
  const std::map<std::string, std::string> seeds = {
      {"kernel_key", std::string(1, '\0') + key},
      {"plan_key", std::string(1, '\0') + EncodeKey(cache_testing::SamplePlanKey())},
      {"envelope", "\x01" + record},
      {"kernel_record", "\x01" + kernel},
      {"table", "\x02" + cache_testing::BuildTable("k/name", record)},
      {"empty_table", "\x02" + cache_testing::BuildTable("k/name", "")},
  };
  EXPECT_GE(ReplaySeeds(Target, "tests/fuzz/cache_record/corpus", seeds, 10000), 6);
}

}  // namespace
}  // namespace sinter::cache_record_fuzz
