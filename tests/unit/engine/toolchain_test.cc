// The compiler's identity: part of kernel keys, yet not asked for on a hit.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

void ExchangeCompiler(FakeWorld& world) {
  world.toolchain = "nvrtc-13.1-bbbb";
  world.build_id = "bbbb";
  world.opened = false;
}

TEST(ToolchainTest, AnExchangedCompilerRebuildsKernelsAndKeepsThePlan) {
  FakeWorld world;
  const Digest before =
      world.MakeEngine()->Prepare(world.chain, 16, {}).value()->plan().PlanDigest();
  ExchangeCompiler(world);
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
  ExchangeCompiler(world);
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
  ExchangeCompiler(world);
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {.must_hit = true}).ok());
  EXPECT_FALSE(world.opened);
}

Config Denying(const std::string& entries) { return Config{.deny_toolchains = entries}; }

uint64_t OtherToolchains(const Engine& engine) {
  return engine.Stats().store.misses[static_cast<int>(MissReason::kOtherToolchain)];
}

TEST(DeniedToolchainTest, ItsKernelsAreMissesAndItCompilesNothing) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const auto engine = world.MakeEngine(Denying("13.0"));
  const absl::Status refused = engine->Prepare(world.chain, 16, {}).status();
  EXPECT_TRUE(Fails(refused, absl::StatusCode::kFailedPrecondition,
                    "nvrtc-13.0-aaaa is denied (\"13.0\")"));
  EXPECT_EQ(world.compiles, 1);
  EXPECT_GE(OtherToolchains(*engine), 1u);
  EXPECT_EQ(engine->Stats().kernel_hits, 0u);
  // Nothing was removed: without the list the kernel serves.
  EXPECT_TRUE(world.MakeEngine(Denying("12.9"))->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.compiles, 1);
}

// However many plans and kernels fail for it: the error says it, the log does not repeat it.
TEST(DeniedToolchainTest, IsSaidOnce) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  world.log.clear();
  const auto engine = world.MakeEngine(Denying("13.0"));
  EXPECT_TRUE(absl::IsFailedPrecondition(engine->Prepare(world.chain, 16, {}).status()));
  for (const std::string& line : world.log) EXPECT_THAT(line, Not(HasSubstr("denied")));
}

TEST(DeniedToolchainTest, AnotherCompilerBuildsTheKernelAnewOnce) {
  for (const bool known : {true, false}) {  // whether the exchange is seen without opening it
    FakeWorld world;
    ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
    ExchangeCompiler(world);
    if (!known) world.build_id = "";
    for (int round = 0; round < 2; ++round) {
      const auto engine = world.MakeEngine(Denying("13.0"));
      const auto plan = Got(engine->Prepare(world.chain, 16, {}));
      EXPECT_EQ(world.compiles, 2);
      EXPECT_EQ(OtherToolchains(*engine), !known && round == 0 ? 1u : 0u);
    }
  }
}

TEST(DeniedToolchainTest, KernelsOfOthersServeWhereTheOwnCompilerIsDenied) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  ExchangeCompiler(world);
  const auto engine = world.MakeEngine(Denying("13.1"));
  const auto plan = Got(engine->Prepare(world.chain, 16, {}));
  EXPECT_EQ(engine->Stats().kernel_hits, 1u);
  EXPECT_EQ(world.compiles, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine->Prepare(world.chain, 64, {}).status()));
  EXPECT_EQ(world.compiles, 1);
}

TEST(DeniedToolchainTest, UnderMustHitItIsACacheMissWithTheReason) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const absl::Status miss =
      world.MakeEngine(Denying("13.0"))->Prepare(world.chain, 16, {.must_hit = true}).status();
  EXPECT_EQ(StatusNumber(miss), static_cast<int32_t>(ErrorCode::kCacheMiss));
  EXPECT_TRUE(Says(miss, "other_toolchain: toolchain"));
}

TEST(DeniedToolchainTest, FromNowOnAndWhatIsHeldLivesOn) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const auto held = engine->Prepare(world.chain, 16, {}).value();
  EXPECT_TRUE(absl::IsInvalidArgument(engine->DenyToolchains("everything")));
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  ASSERT_TRUE(engine->DenyToolchains("13.0").ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(engine->Prepare(world.chain, 16, {}).status()));
  EXPECT_EQ(world.loaded, 1);
  EXPECT_FALSE(held->Explain().empty());
}

}  // namespace
}  // namespace sinter
