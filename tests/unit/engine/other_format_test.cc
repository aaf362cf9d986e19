// A rolling upgrade: engines of two versions of the record formats on one store.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

TEST(OtherFormatTest, EachVersionBuildsOnceAndIsWarmFromThenOn) {
  for (const RecordFormat& fresh : {RecordFormat{kEnvelopeVersion + 1, kKernelRecordVersion},
                                    RecordFormat{kEnvelopeVersion, kKernelRecordVersion + 1}}) {
    FakeWorld old_version, new_version;
    new_version.disk = old_version.disk;
    new_version.format = fresh;
    Digest digest;
    for (int round = 0; round < 3; ++round) {
      for (FakeWorld* world : {&old_version, &new_version}) {
        const auto engine = world->MakeEngine();
        const auto plan = Got(engine->Prepare(world->chain, 16, {}));
        EXPECT_EQ(world->compiles, 1);
        EXPECT_EQ(engine->Stats().searched, round == 0 ? 1u : 0u);
        if (round == 0 && world == &old_version) digest = plan->plan().PlanDigest();
        EXPECT_EQ(plan->plan().PlanDigest(), digest);
      }
    }
    EXPECT_EQ(old_version.disk->Count(RecordKind::kKernel), 2);
    EXPECT_EQ(old_version.disk->Count(RecordKind::kPlan), 2);
  }
}

// A store that a library filled whose keys and kernel records had another layout.
TEST(OtherFormatTest, AnOldCacheIsAMissAndNoError) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const auto records = world.disk->records;
  world.disk->records.clear();
  constexpr size_t kKeyVersionAt = 8, kRecordVersionAt = 8;  // after their magic numbers
  for (const auto& [name, payload] : records) {
    std::string key = name.second, old = payload;
    key[kKeyVersionAt] = static_cast<char>(kKeyVersion - 1);
    old[name.first == RecordKind::kKernel ? kRecordVersionAt : 0] = 3;
    world.disk->records[{name.first, key}] = old;
  }
  const auto engine = world.MakeEngine();
  for (const auto& [name, payload] : world.disk->records) {
    EXPECT_FALSE(engine->CheckStored(name.first, name.second, payload).ok());
  }
  const size_t old_records = world.disk->records.size();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 1u);
  EXPECT_GT(engine->Stats().store.misses[static_cast<int>(MissReason::kAbsent)], 0u);
  EXPECT_EQ(world.disk->records.size(), 2 * old_records)
      << "the old ones stay for whoever reads them";
}

// A payload of the layout before, under the key of today.
TEST(OtherFormatTest, AnOldPayloadIsACountedMiss) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  for (auto& [name, payload] : world.disk->records) {
    payload[name.first == RecordKind::kKernel ? 8 : 0] = 3;
  }
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().store.misses[static_cast<int>(MissReason::kDamaged)], 2u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 1u);
}

}  // namespace
}  // namespace sinter
