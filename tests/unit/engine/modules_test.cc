// Which modules stay loaded on the device, and for how long.
#include "src/engine/bound_plan.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::kK;
using testing::kL;
using testing::kN;

Config Cap(uint64_t bytes) { return Config{.module_cache_bytes = bytes}; }

TEST(ModulesTest, APlanThatIsPreparedAgainFindsItsModulesLoaded) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, 1);
  EXPECT_EQ(world.loaded, 1);
  EXPECT_EQ(engine->Stats().modules_loaded, 1u);
  EXPECT_GT(engine->Stats().module_bytes, 0u);
  EXPECT_EQ(engine->Stats().kernel_hits, 0u);
}

TEST(ModulesTest, BucketsOfOneCodeShareAModule) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  auto small = engine->Prepare(world.chain, 16, {}).value();
  auto large = engine->Prepare(world.chain, 64, {}).value();
  EXPECT_EQ(small->plan().kernels[0].kernel_digest, large->plan().kernels[0].kernel_digest);
  EXPECT_EQ(world.compiles, 1);
  EXPECT_EQ(world.loads, 1);
  EXPECT_EQ(engine->Stats().modules_loaded, 1u);
  small.reset();
  EXPECT_EQ(world.loaded, 1) << "the other plan uses it";
  large.reset();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, WithoutRoomAModuleGoesWithItsLastPlan) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  auto plan = engine->Prepare(world.chain, 16, {}).value();
  auto same = engine->Prepare(world.chain, 9, {}).value();
  plan.reset();
  EXPECT_EQ(world.loaded, 1);
  same.reset();
  EXPECT_EQ(world.loaded, 0);
  EXPECT_EQ(engine->Stats().modules_loaded, 0u);
  EXPECT_EQ(engine->Stats().modules_unloaded, 1u);
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, 2);
  EXPECT_EQ(world.compiles, 1);
}

TEST(ModulesTest, TheLongestUnusedGoFirst) {
  FakeWorld world{.code_per_bucket = true};
  uint64_t bytes = 0;
  {
    const auto probe = world.MakeEngine();
    ASSERT_TRUE(probe->Prepare(world.chain, 64, {}).ok());
    bytes = probe->Stats().module_bytes;
  }
  const auto engine = world.MakeEngine(Cap(2 * bytes + bytes / 2));
  for (const int64_t m : {16, 64, 16, 128}) ASSERT_TRUE(engine->Prepare(world.chain, m, {}).ok());
  EXPECT_EQ(world.loaded, 2);
  const int loads = world.loads;
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, loads);
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());
  EXPECT_EQ(world.loads, loads + 1);
  EXPECT_EQ(world.loaded, 2);
}

TEST(ModulesTest, ABindingAndAGraphKeepTheirModules) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  FakeBuffers buffers({16 * kK * 2, kN * kK * 2, kN * kL * 2, 16 * kL * 2, 1 << 20});
  std::vector<DevicePtr> pointers = buffers.pointers();
  const DevicePtr workspace = pointers.back();
  pointers.pop_back();
  world.compute = false;
  auto plan = engine->Prepare(world.chain, 16, {}).value();
  auto binding = plan->Bind(pointers, workspace).value();
  world.capturing = true;
  ASSERT_TRUE(plan->Launch(*binding, nullptr, 16, false).ok());
  world.capturing = false;
  plan.reset();
  EXPECT_EQ(world.loaded, 1);
  binding.reset();
  EXPECT_EQ(world.loaded, 1);
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());  // makes room, and finds none
  EXPECT_EQ(world.loaded, 1);
  world.graph.clear();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, NothingUnusedOutlivesTheEngineAndAPlanDoes) {
  FakeWorld world{.code_per_bucket = true};
  auto engine = world.MakeEngine();
  auto held = engine->Prepare(world.chain, 16, {}).value();
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());
  EXPECT_EQ(world.loaded, 2);
  engine.reset();
  EXPECT_EQ(world.loaded, 1);
  held.reset();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, AFoundWrongKernelIsNotKept) {
  FakeWorld world{.wrong = {"grid"}};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {.verify = true}).value();
  EXPECT_EQ(plan->plan().name(), "unfused");
  EXPECT_EQ(world.loaded, 2);
  EXPECT_EQ(engine->Stats().modules_loaded, 2u);
}

// Many models come and go: what is loaded stays under the cap.
TEST(ModulesTest, ChurnStaysUnderTheCap) {
  FakeWorld world{.code_per_bucket = true};
  const uint64_t cap = 8192;
  const auto engine = world.MakeEngine(Cap(cap));
  std::vector<std::shared_ptr<const PreparedPlan>> held(3);
  for (int i = 0; i < 300; ++i) {
    const int64_t m = int64_t{64} << (i * 7 % 6);
    held[static_cast<size_t>(i) % held.size()] = engine->Prepare(world.chain, m, {}).value();
    EXPECT_LE(engine->Stats().module_bytes, cap);
    EXPECT_EQ(engine->Stats().modules_loaded, static_cast<uint64_t>(world.loaded.load()));
  }
}

}  // namespace
}  // namespace sinter
