// The compiler's identity: part of kernel keys, yet not asked for on a hit.
#include <gtest/gtest.h>

#include "src/engine/keys.h"
#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using testing::FakeWorld;

void Exchange(FakeWorld& world) {
  world.toolchain = "nvrtc-13.1-bbbb";
  world.build_id = "bbbb";
  world.opened = false;
}

TEST(ToolchainTest, AnExchangedCompilerRebuildsKernelsAndKeepsThePlan) {
  FakeWorld world;
  const Digest before =
      world.MakeEngine()->Prepare(world.chain, 16, {}).value()->plan().PlanDigest();
  Exchange(world);
  const auto engine = world.MakeEngine();
  EXPECT_EQ(engine->Prepare(world.chain, 16, {}).value()->plan().PlanDigest(), before);
  EXPECT_EQ(engine->Stats().searched, 0u);
  EXPECT_EQ(world.compiles, 2);
  EXPECT_EQ(world.disk->Count(RecordKind::kKernel), 2);

  world.opened = false;
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 2);
  EXPECT_FALSE(world.opened);
}

TEST(ToolchainTest, WhereTheBuildIdIsUnknownARecordServesUntilAKernelIsMissing) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  Exchange(world);
  world.build_id = "";
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 1);

  world.disk->records.erase({RecordKind::kKernel, world.disk->Keys(RecordKind::kKernel).front()});
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 2);
  EXPECT_EQ(ToolchainOfKey(world.disk->Keys(RecordKind::kKernel).front()), world.toolchain);

  // The plan record names the new kernels now: warm again, compiler closed.
  world.opened = false;
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 2);
  EXPECT_FALSE(world.opened);
}

TEST(ToolchainTest, MustHitTakesWhatIsThere) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  Exchange(world);
  PrepareOptions options;
  options.must_hit = true;
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, options).ok());
  EXPECT_FALSE(world.opened);
}

}  // namespace
}  // namespace sinter
