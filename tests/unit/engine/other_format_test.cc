// A rolling upgrade: engines of two versions of the record formats on one store.
#include <gtest/gtest.h>

#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using testing::FakeWorld;

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
        const auto plan = engine->Prepare(world->chain, 16, {});
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_EQ(world->compiles, 1);
        EXPECT_EQ(engine->Stats().searched, round == 0 ? 1u : 0u);
        if (round == 0 && world == &old_version) digest = (*plan)->plan().PlanDigest();
        EXPECT_EQ((*plan)->plan().PlanDigest(), digest);
      }
    }
    EXPECT_EQ(old_version.disk->Count(RecordKind::kKernel), 2);
    EXPECT_EQ(old_version.disk->Count(RecordKind::kPlan), 2);
  }
}

}  // namespace
}  // namespace sinter
