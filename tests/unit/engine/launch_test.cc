// Binding and launching: order of buffers, checks, pieces of the largest bucket, edges, capture.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::FarApart;
using testing::kK;
using testing::kL;
using testing::kN;

constexpr int64_t kRows = 6;
constexpr DevicePtr kWorkspace = DevicePtr{1} << 40;

std::vector<int64_t> Sizes(int64_t m) { return {m * kK * 2, kN * kK * 2, kN * kL * 2, m * kL * 2}; }

struct Ready {
  FakeWorld world;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const PreparedPlan> plan;

  // `disk`: the disk of another world; null: a new one.
  explicit Ready(int64_t m = 16, PrepareOptions::Choice choice = PrepareOptions::Choice::kBest,
                 std::shared_ptr<testing::FakeDisk> disk = nullptr) {
    if (disk != nullptr) world.disk = std::move(disk);
    engine = world.MakeEngine();
    plan = engine->Prepare(world.chain, m, {.choice = choice}).value();
  }
};

void* At(DevicePtr pointer) { return reinterpret_cast<void*>(pointer); }

TEST(LaunchTest, AFaultNamesPlanKernelAndThePlanBefore) {
  Ready ready;
  FakeBuffers buffers(Sizes(kRows)), workspace({1 << 20});
  const auto binding = ready.plan->Bind(buffers.pointers(), workspace.pointers()[0]).value();
  ASSERT_TRUE(ready.plan->Launch(*binding, nullptr, kRows, false).ok());
  ready.world.faulted = true;
  const absl::Status status = ready.plan->Launch(*binding, nullptr, kRows, false);
  EXPECT_TRUE(IsContextLost(status)) << status;
  const std::string digest = ready.plan->ChosenDigest().Hex().substr(0, 16);
  EXPECT_TRUE(Says(status, "launching kernel 0 ("));
  EXPECT_TRUE(Says(status, "of plan 'fused' " + digest));
  EXPECT_TRUE(Says(status, "the plan launched last before this was " + digest));
}

// Another plan could only fail alike.
TEST(LaunchTest, AFaultInTheSelfCheckIsAnError) {
  FakeWorld world{.faulted = true};
  const absl::Status status =
      world.MakeEngine()->Prepare(world.chain, 16, {.verify = true}).status();
  EXPECT_TRUE(IsContextLost(status)) << status;
  EXPECT_TRUE(Says(status, "the self-check: launching kernel 0 ("));
}

TEST(LaunchTest, EqualChainsShareAPlanAndKeepTheirOwnOrderOfInputs) {
  Ready ready;
  const Chain other = testing::TestChainInOtherOrder();
  ASSERT_EQ(other.CanonicalBytes(), ready.world.chain.CanonicalBytes());
  const auto plan = ready.engine->Prepare(other, 16, {}).value();
  EXPECT_EQ(&plan->plan(), &ready.plan->plan());

  const auto inputs = RandomInputs(ready.world.chain, kRows, 3).value();
  FakeBuffers buffers(Sizes(kRows)), again(Sizes(kRows)), workspace({1 << 20});
  const std::vector<DevicePtr>& p = buffers.pointers();
  for (size_t i = 0; i < 3; ++i) std::memcpy(At(p[i]), inputs[i].data(), inputs[i].size());
  const auto bound = ready.plan->Bind(p, workspace.pointers()[0]).value();
  ASSERT_TRUE(ready.plan->Launch(*bound, nullptr, kRows, false).ok());

  const DevicePtr out = again.pointers()[3];
  const auto other_bound = plan->Bind({p[2], p[0], p[1], out}, workspace.pointers()[0]).value();
  ASSERT_TRUE(plan->Launch(*other_bound, nullptr, kRows, false).ok());
  EXPECT_EQ(std::memcmp(At(out), At(p[3]), kRows * kL * 2), 0);
  EXPECT_EQ(ready.engine->Stats().launches, 2u);
}

TEST(LaunchTest, BadBuffersAreNamed) {
  Ready ready;
  const DevicePtr good = 4096, workspace = 1 << 20;
  struct Case {
    std::vector<DevicePtr> buffers;
    DevicePtr workspace;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{good, good, good}, workspace, "got 3 buffers, want 4"},
      {{}, workspace, "got 0 buffers, want 4"},
      {{good, good, good, good, good}, workspace, "got 5 buffers"},
      {{good, 0, good, good}, workspace, "buffer of input 1 is null"},
      {{good, good, good + 8, good}, workspace, "input 2 is at 0x1008, must be aligned to 16"},
      {{good, good, good, good + 2}, workspace, "output 0 is at 0x1002"},
      {{good, good, good, good}, 0, "workspace is null, the plan needs"},
      {{good, good, good, good}, workspace + 64, "must be aligned to 128"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(Fails(ready.plan->Bind(c.buffers, c.workspace), absl::StatusCode::kInvalidArgument,
                      c.message))
        << c.message;
  }
}

TEST(LaunchTest, BuffersOfRowsMayBeNullWithoutRows) {
  Ready ready;
  ready.world.compute = false;
  const auto bound = Got(ready.plan->Bind({0, 4096, 4096, 0}, kWorkspace, true));
  EXPECT_TRUE(ready.plan->Launch(*bound, nullptr, 0, false).ok());
  EXPECT_TRUE(ready.world.launches.empty());
  const absl::Status weights = ready.plan->Bind({0, 0, 4096, 0}, kWorkspace, true).status();
  EXPECT_TRUE(Says(weights, "buffer of input 1 is null"));
  const absl::Status rows = ready.plan->Bind({0, 4096, 4096, 4096}, kWorkspace).status();
  EXPECT_TRUE(Says(rows, "buffer of input 0 is null"));
}

// An output without M that is made of what it overwrites is made once, from all rows.
TEST(LaunchTest, MoreRowsThanAPlanTakesAtOnceAreRefusedWhenItIsPrepared) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  const Chain chain =
      ReadChain("x: bf16[M,8]; step: f32[8]; out abs(x); out step + step over step");
  EXPECT_TRUE(engine->Prepare(chain, kLargestBucket, {}).ok());
  const absl::Status status = engine->Prepare(chain, 20001, {}).status();
  EXPECT_TRUE(Fails(status, absl::StatusCode::kOutOfRange, "m is 20001, must be at most 8192"));
}

TEST(LaunchTest, WorkspaceIsCheckedAndOnlyItsHeaderIsCleared) {
  Ready ready;
  const uint64_t bytes = ready.plan->WorkspaceBytes();
  ASSERT_GT(bytes, kWorkspaceFlagBytes);
  FakeBuffers workspace({static_cast<int64_t>(bytes)});
  const DevicePtr at = workspace.pointers()[0];
  EXPECT_TRUE(absl::IsInvalidArgument(ready.plan->InitWorkspace(at, bytes - 1, nullptr)));
  ASSERT_TRUE(ready.plan->InitWorkspace(at, bytes, nullptr).ok());
  const auto* byte = static_cast<const uint8_t*>(At(at));
  EXPECT_EQ(byte[0], 0);
  EXPECT_EQ(byte[kWorkspaceFlagBytes - 1], 0);
  EXPECT_EQ(byte[kWorkspaceFlagBytes], 0xff);
}

TEST(LaunchTest, RowsBeyondTheBucketAreRefusedAndNoneIsNothing) {
  Ready ready;
  ready.world.compute = false;
  const auto bound = ready.plan->Bind(FarApart(4), 128).value();
  EXPECT_TRUE(absl::IsOutOfRange(ready.plan->Launch(*bound, nullptr, 17, false)));
  EXPECT_TRUE(absl::IsOutOfRange(ready.plan->Launch(*bound, nullptr, -1, false)));
  EXPECT_TRUE(ready.plan->Launch(*bound, nullptr, 0, false).ok());
  EXPECT_TRUE(ready.world.launches.empty());
  EXPECT_TRUE(ready.plan->Launch(*bound, nullptr, 16, false).ok());
  EXPECT_EQ(ready.world.launches.size(), 1u);
}

TEST(LaunchTest, MoreRowsThanTheLargestBucketGoInPieces) {
  Ready ready(kLargestBucket);
  ready.world.compute = false;
  const auto bound = ready.plan->Bind(FarApart(4), 128).value();
  ASSERT_TRUE(ready.plan->Launch(*bound, nullptr, 2 * kLargestBucket + 5, false).ok());
  ASSERT_EQ(ready.world.launches.size(), 3u);
  const int64_t rows[] = {kLargestBucket, kLargestBucket, 5};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ready.world.launches[i].m, rows[i]);
    EXPECT_EQ(ready.world.launches[i].row_offset, static_cast<int64_t>(i) * kLargestBucket);
    EXPECT_FALSE(ready.world.launches[i].pdl_edge);
  }
}

// The rows of a single GEMM are only in its buffers, and its kernel walks over as many tiles.
TEST(LaunchTest, AProductAloneTakesMoreRowsThanTheLargestBucketAtOnce) {
  FakeWorld world{.plan = PlanChain, .compute = false};
  const auto engine = world.MakeEngine();
  const Chain chain = ParseProblem("matmul m=M n=64 k=64 bias1=1").value().chain;
  const auto launched = [&](int64_t bucket, int64_t m) {
    const auto plan = engine->Prepare(chain, bucket, {}).value();
    const auto bound = plan->Bind(FarApart(4), 128).value();
    world.launches.clear();
    EXPECT_TRUE(plan->Launch(*bound, nullptr, m, false).ok());
    std::vector<int64_t> rows;
    for (const auto& launch : world.launches) rows.push_back(launch.m);
    return rows;
  };
  EXPECT_THAT(launched(kLargestBucket, 3 * kLargestBucket + 5),
              ElementsAre(3 * kLargestBucket + 5));
  constexpr int64_t kMost = int64_t{1} << 24;
  EXPECT_THAT(launched(kLargestBucket, kMost + 3), ElementsAre(kMost, 3));
  const auto small = engine->Prepare(chain, 16, {}).value();
  EXPECT_TRUE(absl::IsOutOfRange(
      small->Launch(*small->Bind(FarApart(4), 128).value(), nullptr, 17, false)));
}

TEST(LaunchTest, EdgesInsideThePlanAreProgrammaticAndTheFirstIsTheCallersChoice) {
  Ready ready(16, PrepareOptions::Choice::kUnfused);
  ready.world.compute = false;
  const auto bound = ready.plan->Bind(FarApart(4), 128).value();
  ASSERT_TRUE(ready.plan->Launch(*bound, nullptr, 16, false).ok());
  ASSERT_TRUE(ready.plan->Launch(*bound, nullptr, 16, true).ok());
  std::vector<bool> edges;
  for (const auto& launch : ready.world.launches) edges.push_back(launch.pdl_edge);
  EXPECT_EQ(edges, (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(ready.world.launches[0].kernel, "first");
  EXPECT_EQ(ready.world.launches[1].kernel, "second");
}

TEST(LaunchTest, AChainWithoutMRunsItsOwnRows) {
  FakeWorld world{.chain = testing::TestChain(24), .compute = false};
  const auto plan = world.MakeEngine()->Prepare(world.chain, 1, {}).value();
  const auto bound = plan->Bind(FarApart(4), 128).value();
  ASSERT_TRUE(plan->Launch(*bound, nullptr, 1, false).ok());
  EXPECT_EQ(world.launches.front().m, 24);
}

TEST(LaunchTest, ABindingOfAnotherPlanIsRefused) {
  Ready ready;
  const auto other = ready.engine->Prepare(ready.world.chain, 64, {}).value();
  const auto bound = other->Bind(FarApart(4), 128).value();
  EXPECT_TRUE(absl::IsInvalidArgument(ready.plan->Launch(*bound, nullptr, 1, false)));
}

TEST(LaunchTest, CaptureTiesThePlanAndRefusesTheSlowCalls) {
  Ready ready;
  ready.world.compute = false;
  EXPECT_TRUE(ready.engine->RefuseDuringCapture(nullptr).ok());
  const auto bound = ready.plan->Bind(FarApart(4), 128).value();
  ready.world.capturing = true;
  ASSERT_TRUE(ready.plan->Launch(*bound, nullptr, 16, false).ok());
  EXPECT_EQ(ready.world.ties, 1);
  EXPECT_EQ(StatusNumber(ready.engine->RefuseDuringCapture(nullptr)),
            static_cast<int32_t>(ErrorCode::kStreamCapturing));
}

TEST(LaunchTest, APlanOutlivesItsEngine) {
  Ready ready;
  ready.world.compute = false;
  ready.engine.reset();
  EXPECT_GT(ready.world.loaded, 0);  // its kernels stay
  const auto bound = ready.plan->Bind(FarApart(4), 128).value();
  EXPECT_TRUE(ready.plan->Launch(*bound, nullptr, 3, false).ok());
  ASSERT_EQ(ready.world.launches.size(), 1u);
  EXPECT_EQ(ready.world.launches.front().m, 3);
}

TEST(LaunchTest, SourceIsGeneratedOnDemand) {
  Ready first(16, PrepareOptions::Choice::kUnfused);
  Ready ready(16, PrepareOptions::Choice::kUnfused, first.world.disk);
  EXPECT_EQ(ready.world.compiles, 0);  // from records, which hold no source
  const int before = ready.world.generated;
  EXPECT_EQ(ready.plan->SourceOf(0), "// kernel first\n#include \"all.cuh\"\n");
  EXPECT_EQ(ready.world.generated, before + 1);
  EXPECT_EQ(ready.plan->SourceOf(2), "");
  EXPECT_EQ(ready.plan->SourceOf(-1), "");
}

}  // namespace
}  // namespace sinter
